"""Declarations of authors: steps, edges, policies, retries, migration hooks."""
