"""The engine's decisions, pure: a tick in, the next moment and commands out."""
