"""Actions on requests: answer, comment, assign, amend, and what their deadlines do."""
