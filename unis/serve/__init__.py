"""What UNiS tells over HTTP, on this machine: metrics of all runs."""
