"""The evaluation of the UNiS paper (sections 3 and 5), measured here."""
