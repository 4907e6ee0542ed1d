"""Actions on one's own account: out of office, preferences, saved views, webhooks."""
