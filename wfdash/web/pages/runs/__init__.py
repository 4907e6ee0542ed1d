"""Pages of runs: the parts of a run's page, its events and state, and its actions."""
