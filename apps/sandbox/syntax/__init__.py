"""Parse texts that nobody vouches for, in a process that may be lost."""
