"""Where the time of a packet goes."""
