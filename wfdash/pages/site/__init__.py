"""What every page shares: decorators, navigation, headers, error pages; and addresses for probes and scrapers."""
