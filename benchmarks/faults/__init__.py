"""Ten thousand ways to get something done without a right to it, and none of them works."""
