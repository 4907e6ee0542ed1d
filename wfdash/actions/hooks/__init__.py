"""Actions on webhooks: those that wfdash sends, their deliveries, and those that it receives."""
