"""The program that looks at files of unknown origin, alone in a sandbox of its own.

It stands on the standard library, reads with bounds, and never leaves the files that it was given.
What it says is a claim that the trusted side reads strictly.
"""
