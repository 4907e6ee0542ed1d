"""The doors of the web: pages, the HTTP API, live streams, and what carries HTTP. No rule is theirs.

``http`` takes a request into Django with one thread crossing, and bounds its body; ``page_threads`` are the threads
that answer, and what becomes of those that hang; ``problems`` makes errors responses of the API.
"""
