"""A Django project that existed before wfdash came: its people sign in by email address, at its own page."""

from __future__ import annotations
