"""The API of actions on runs: one, or many at once."""
