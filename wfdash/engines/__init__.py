"""Adapters between the dashboard and what executes workflows, loaded by dotted path."""
