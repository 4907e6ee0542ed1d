"""Reads of people, groups and roles: who is here, who may do what, and why."""
