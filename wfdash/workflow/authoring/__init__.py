"""What authors declare: steps, edges, policies, retries, migration hooks."""
