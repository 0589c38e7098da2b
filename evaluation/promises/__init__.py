"""Two promises on one core of this machine: planned, then measured."""
