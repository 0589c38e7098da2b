"""What the simulator must know of this machine, measured on it."""
