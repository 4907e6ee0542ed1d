"""What a checkpoint of a native workflow holds: positions, journals, errors."""
