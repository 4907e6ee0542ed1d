"""Runs that another one leads to: the commands that start one like it, and the next message to a completed one."""
