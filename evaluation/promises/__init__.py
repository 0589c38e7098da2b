"""Two promises on one core of this machine, planned and held against what comes."""
