"""Parse texts that nobody vouches for, in a process that may be lost.

`child` answers questions about one text after another, behind a system-call filter of its own;
`ask` starts it, gives each question a deadline, and replaces a child that is slow or gone.
"""
