"""Graphs as workflows: which are served, how they are described, what they take and what may be edited."""
