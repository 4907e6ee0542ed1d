"""Pages of the audit: entries, exports, the printable record of a run."""
