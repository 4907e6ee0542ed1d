"""Servers, workers and those who wait for them."""
