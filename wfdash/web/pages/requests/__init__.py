"""Pages of requests: the inbox, one request, similar requests, answer links."""
