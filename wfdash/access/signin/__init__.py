"""Signing in: one-time links, the password backend with its limits, and the second factor."""
