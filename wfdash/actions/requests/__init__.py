"""Actions on requests: answer, comment, assign, amend, and what deadlines do."""
