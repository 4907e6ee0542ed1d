"""Reads of statistics: metrics of the past, gauges of now, readiness."""
