"""Actions on checkpoints: restore, fork and edit."""
