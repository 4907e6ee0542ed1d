"""Orders of lists, and cursors into them: pages join without gap or double while rows come and go."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q

MOMENTS = frozenset({"created", "finished", "place"})
NUMBERS = {"risk": 1000, "n": 2**63, "never": 2}
"""Columns of numbers, which are below these."""


@dataclass(frozen=True, kw_only=True)
class KeysetOrder:
    """Columns with their directions (``-`` first: descending), the last of them unique; none may be null."""

    columns: tuple[str, ...]

    def backwards(self) -> KeysetOrder:
        """Return the opposite order."""
        turned = (column[1:] if column.startswith("-") else f"-{column}" for column in self.columns)
        return replace(self, columns=tuple(turned))

    def after(self, place: Mapping[str, Any]) -> Q:
        """Return the filter of what comes after the row with these values."""
        beyond, same = Q(pk__in=[]), Q()
        for column in self.columns:
            name, value = column.lstrip("-"), place[column.lstrip("-")]
            beyond |= same & Q(**{f"{name}__{'lt' if column.startswith('-') else 'gt'}": value})
            same &= Q(**{name: value})
        return beyond

    def cursor(self, row: Mapping[str, Any]) -> str:
        """Return the place after this row as text for an address."""
        values = [row[column.lstrip("-")] for column in self.columns]
        text = json.dumps([_encoded(value) for value in values])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def place(self, cursor: str) -> dict[str, Any] | None:
        """Return the place a cursor names; None for an empty or damaged one: the list then starts at its top."""
        try:
            values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            if not isinstance(values, list) or len(values) != len(self.columns):
                return None
            names = [column.lstrip("-") for column in self.columns]
            return {name: _decoded(name, value) for name, value in zip(names, values, strict=True)}
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, binascii.Error):
            return None


def _encoded(value: Any) -> Any:
    return {"at": value.isoformat()} if isinstance(value, datetime) else value


def _decoded(name: str, value: Any) -> Any:
    """Return a value of a place. ``ValueError`` and others for one that its column cannot be compared with."""
    if name in MOMENTS:
        moment = datetime.fromisoformat(value["at"])
        if moment.tzinfo is None:
            raise ValueError("a moment without a time zone")
        return moment.astimezone(UTC)
    if name in NUMBERS and isinstance(value, int) and abs(value) < NUMBERS[name]:
        return value
    if name not in NUMBERS and isinstance(value, str) and "\0" not in value:
        value.encode()  # A lone surrogate is no text that a column could hold.
        return value
    raise ValueError("no value of a place")
