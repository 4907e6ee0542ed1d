"""Actions on webhooks: those that wfdash sends, their deliveries, and those that it receives.

``workflows`` has the workflow through which the hooks of coding agents ask people.
"""
