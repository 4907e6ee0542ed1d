"""What steps ask people for: cards, choices, tool calls, signals, and the types of answers."""
