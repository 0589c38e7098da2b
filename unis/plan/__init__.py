"""The plan: what a chain file becomes on a machine. Everything is decided here, nothing is done."""
