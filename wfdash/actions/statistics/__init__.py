"""Counting events into hourly metrics: each event once."""
