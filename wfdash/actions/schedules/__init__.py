"""Actions on schedules, and the runs that a due schedule starts."""
