"""Pages of schedules: the list, one schedule, and the form."""
