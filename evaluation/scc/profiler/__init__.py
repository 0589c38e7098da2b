"""What the profiler of the SCC paper shows, of this machine and of chains on it, and whether it is
true: `--only profiler`.
"""
