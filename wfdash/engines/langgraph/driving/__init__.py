"""One drive of a run: the call of the graph, what it saves to, and the questions it waits for."""
