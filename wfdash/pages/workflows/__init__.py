"""Pages of the catalogue: workflows, and the form that starts a run."""
