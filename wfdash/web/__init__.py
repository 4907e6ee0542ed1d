"""The doors of the web: pages, the HTTP API, live streams, and what carries HTTP. No rule is theirs."""
