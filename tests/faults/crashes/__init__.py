"""Processes that die, or harm the process they run in, while runs go on."""
