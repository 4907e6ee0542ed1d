"""The API of people: accounts, groups, roles, and who may do what."""
