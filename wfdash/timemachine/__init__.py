"""What restoring, forking and migrating rest on, for actions and queries alike."""
