"""Adapters between the dashboard and the engines that execute workflows, loaded by dotted path."""
