"""The pure rules of the dashboard: cron, votes, the audit's hash chain, graph differences, JSON Patch. No Django."""
