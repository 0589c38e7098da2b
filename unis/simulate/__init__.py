"""The same scheduler on virtual time: what a chain would do on a machine that is not there."""
