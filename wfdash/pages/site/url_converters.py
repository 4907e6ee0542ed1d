"""URL converters for ids. Ids are opaque: one with a slash must not break a page that only lists it."""

from __future__ import annotations

from urllib.parse import quote, unquote

from django.urls.converters import StringConverter


class IdConverter(StringConverter):
    """An id as one part of a path."""

    def to_python(self, value: str) -> str:
        """Return the id."""
        return unquote(value)

    def to_url(self, value: str) -> str:
        """Return it without anything that has a meaning in a path."""
        return quote(str(value), safe="")


class VerbConverter(StringConverter):
    """An action on a run."""

    regex = "pausenow|pause|resume|force|retry"


class KindConverter(StringConverter):
    """A format of an export."""

    regex = "json|csv"
