"""NICs and their virtual functions (VFs): PCI devices, and which driver has them."""
