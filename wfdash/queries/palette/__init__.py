"""One search over everything: what a text may mean, and what of that a person may see."""
