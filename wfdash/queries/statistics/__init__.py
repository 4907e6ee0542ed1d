"""Reads of statistics: figures of the past, gauges of now, readiness."""
