"""Memory references of functions, recorded, and caches modelled on them."""
