"""The audit's entries, written in the transaction of the action they record."""
