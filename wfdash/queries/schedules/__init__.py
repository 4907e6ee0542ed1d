"""Reads of schedules."""
