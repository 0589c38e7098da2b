"""What is counted of the functions of a chain while nothing is traced."""
