"""Pages of a person's account: sign-in, second factor, settings, notifications, saved views, out of office."""
