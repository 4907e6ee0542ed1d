"""Access: what a person may see and do, who may act in a workflow, and the voters of a request."""
