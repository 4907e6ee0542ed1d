"""Questions of steps to people: cards, choices, tool calls, signals, and the types of answers."""
