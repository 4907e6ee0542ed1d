"""Who may see and do what: the viewer, the directory of people, the voters of a request."""
