"""What a chain passes at most, and which resource is the limit: a linear program, and no more.

Nothing here reads a file or looks at this machine.
"""
