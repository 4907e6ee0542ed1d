"""The types of answers, and how they are found again by name."""
