"""Questions that other programs ask: what they send, and the workflow ``ask_people`` that asks it."""
