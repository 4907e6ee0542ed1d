"""What every page shares: decorators, navigation, headers, error pages; and endpoints for probes and scrapers."""
