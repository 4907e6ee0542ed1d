"""Counting events into the metrics of hours: each event once."""
