"""The decision card: what is shown, and how an answer is read."""
