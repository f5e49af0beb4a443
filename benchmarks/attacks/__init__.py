"""Does every wall of the sandbox hold against every attack that we know?"""
