"""Values of any type as JSON: the codec, names of types and classes, fingerprints, what pages display."""
