"""Pages of people: the list, one person, invitations, groups, who may do what."""
