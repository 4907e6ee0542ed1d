"""From a definition to its graph: flattened, checked, frozen."""
