"""The HTTP API: the same queries and actions as the pages, as JSON.

``router`` puts the nouns together, ``document`` completes the OpenAPI document; ``long_poll`` is ``wait=``: requests
that wait for a run without keeping a thread.
"""
