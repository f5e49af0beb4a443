"""The formats of the one language that the pages speak."""
