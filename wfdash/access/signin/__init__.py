"""Signing in: one-time links, passwords with limits, the second factor, passkeys, a provider, tokens, sessions."""
