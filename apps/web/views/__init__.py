"""The member's pages."""
