"""Pages of the time machine: one checkpoint, two compared, one edited."""
