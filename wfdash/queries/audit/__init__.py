"""Reads of the audit: entries and exports."""
