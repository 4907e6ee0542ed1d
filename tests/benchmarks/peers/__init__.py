"""Peers, each run by a script that stands alone."""
