"""What the engine counts: each counter and gauge of its statistics is declared here, once."""
