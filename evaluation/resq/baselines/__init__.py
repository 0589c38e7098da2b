"""What the ResQ paper compares itself with (section 6): methods that divide no cache."""
