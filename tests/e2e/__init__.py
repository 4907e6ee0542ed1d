"""Stories in a real browser against a real server, and the means to tell them."""

from __future__ import annotations
