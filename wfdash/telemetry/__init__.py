"""What operators watch: traces, and the log's format and filters."""
