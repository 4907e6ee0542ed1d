"""Reads of webhooks: those a person manages, their deliveries, and each attempt."""
