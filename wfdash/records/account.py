"""The person or service account that calls, and what is theirs."""

from __future__ import annotations

from wfdash.records.base import ApiRecord


class Rights(ApiRecord):
    """What one may do in a workflow, ``*`` for every one: see, inspect, answer, start, operate, admin."""

    workflow: str
    verbs: list[str]


class Me(ApiRecord):
    """Who calls, and what they may do with the credentials they sent."""

    name: str
    groups: list[str]
    rights: list[Rights]
    acts_for: list[str] = []
    """Absent people for whom they answer now."""
