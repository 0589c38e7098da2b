"""Carries a plan out: starts what it names, watches it, and undoes it whatever happens.

`steps.py` is the way through: `up` walks it forward, clean-up backwards, whoever walks it.
"""
