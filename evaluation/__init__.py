"""Comparisons with papers, and UNiS against itself: what operators do not need. Run from a clone.

`python -m evaluation` lists them. The product (`unis/`) imports nothing of this.
"""
