"""Windows of one run, in an order that is fair, and what may be said of them."""
