"""The whole story, driven over the public surfaces only."""
