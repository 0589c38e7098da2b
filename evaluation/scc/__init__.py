"""The evaluation of the SCC paper (Katsikas et al., 2017) on this machine, beside UNiS."""
