"""Actions on people, groups and roles: invite, grant, deactivate, sign-in links, groups and their members."""
