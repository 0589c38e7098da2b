"""Whether the capacity model is right on this machine: predicted against measured throughput."""
