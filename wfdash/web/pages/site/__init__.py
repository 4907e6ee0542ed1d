"""What every page shares: decorators, navigation, headers, error pages; and endpoints for probes and scrapers.

``project_urls`` are the addresses of wfdash as a project of its own (admin, static files and error pages beside the
dashboard); ``embedding`` is the dashboard inside a project: views that need no middleware of wfdash's, and system
checks of what the project lacks. ``files`` are what browsers keep: the one style sheet, the one script, and what makes
the dashboard an app on a phone (manifest, service worker, the page without a connection).
"""
