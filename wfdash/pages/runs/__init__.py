"""Pages of runs: the parts of a run's page, its events and state, and what is done to it."""
