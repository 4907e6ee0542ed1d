"""What operators watch: traces, and the log's format and filters.

``logs`` says what a line is about, ``outages`` makes one line of an outage, ``error_hook`` is ``WFDASH_ON_ERROR``,
``spans`` and ``tracing`` are OpenTelemetry's.
"""
