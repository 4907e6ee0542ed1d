"""An installation: its data directory, its address, its workflow files, settings that must not be combined.

Also how long runs are kept (``keep_rules``), which frameworks are there, the provider at which people sign in, and
whether this process is about to end (``stopping``).
"""
