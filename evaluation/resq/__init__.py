"""The comparison with the ResQ paper."""
