"""Comparisons of UNiS with papers and with itself, to be run from a clone.

`python -m evaluation` lists the commands. The product (`unis/`) imports nothing from here.
"""
