"""What UNiS measured, for people to look at."""
