"""What all lists are searched with: the filter language, cursors, JSON expressions."""
