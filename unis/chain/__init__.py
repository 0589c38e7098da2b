"""The chain file: what runs where, on which traffic, under which scheduler."""
