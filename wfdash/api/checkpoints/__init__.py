"""The API of a run's checkpoints."""
