"""Whoever changes the audit trail is found, and finding out is quick."""
