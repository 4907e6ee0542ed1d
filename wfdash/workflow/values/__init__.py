"""Values of workflows as JSON: the codec, names of types, exceptions, fingerprints, display."""
