"""Workflow graphs as drawings and as text."""
