"""How does a program that a package brings get its call, and what may it answer?

Everything here is values and functions: nothing is started, opened or looked up.
"""
