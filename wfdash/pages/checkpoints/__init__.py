"""Pages of checkpoints: one, two compared, one edited."""
