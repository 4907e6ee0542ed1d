"""Several processes or people that want the same thing at once."""
