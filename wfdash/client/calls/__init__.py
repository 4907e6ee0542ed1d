"""Every call of the API as a script, by noun."""
