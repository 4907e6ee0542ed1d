"""A whole cluster under attack: processes killed, frozen and stopped, the database crashed, signals cut off."""
