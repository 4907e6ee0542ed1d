"""Actions of the time machine: restore, fork and edit a checkpoint."""
