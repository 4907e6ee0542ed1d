"""What people are asked, by any engine: cards, choices, tool calls, signals, evidence, and the policy of a question."""
