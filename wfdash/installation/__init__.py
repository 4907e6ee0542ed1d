"""An installation: its data directory, its address, its workflow files, settings that must not be combined."""
