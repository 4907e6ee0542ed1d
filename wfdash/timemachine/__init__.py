"""What restoring, forking and migrating need, for actions and queries alike."""
