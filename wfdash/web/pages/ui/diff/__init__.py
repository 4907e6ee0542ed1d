"""Differences for display: of texts, of unified diffs, of JSON values."""
