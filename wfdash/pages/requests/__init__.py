"""Pages of requests: the inbox, one request, many alike, answer links."""
