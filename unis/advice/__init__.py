"""What would make a chain faster, from what was measured of it; and tries of that."""
