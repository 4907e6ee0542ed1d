"""The filter of the list of runs: its keys, their conditions, and the indexes that lead to what they hold for."""
