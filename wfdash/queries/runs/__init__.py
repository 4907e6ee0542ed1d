"""Reads of runs: the list with its filter and search, one run, its steps, events, values and signals."""
