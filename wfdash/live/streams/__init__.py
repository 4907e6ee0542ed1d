"""Event streams (SSE): the events of a run, or of all runs of a workflow, to programs over plain HTTP."""
