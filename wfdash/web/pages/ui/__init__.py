"""Rendering, without rules: the decision card, forms, graphs, charts, diffs, values, times and event texts."""
