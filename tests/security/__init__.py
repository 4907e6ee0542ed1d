"""What attackers tried, as tests: each is named after what it proves."""

from __future__ import annotations
