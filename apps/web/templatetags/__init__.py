"""Template tags of the member's pages."""
