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

    regex = "pausenow|pause|resume|handover|force|retry"


class KindConverter(StringConverter):
    """A format of an export."""

    regex = "json|csv"


class NameConverter(IdConverter):
    """The name of a person or group as one part of a path. One that is a page's own word there gets a sign before."""

    TAKEN = frozenset({"groups", "invite", "access"})
    SIGN = "="

    def to_python(self, value: str) -> str:
        """Return the name."""
        return super().to_python(value).removeprefix(self.SIGN)

    def to_url(self, value: str) -> str:
        """Return it so that it leads to the person."""
        name = str(value)
        return super().to_url(f"{self.SIGN}{name}" if name in self.TAKEN or name.startswith(self.SIGN) else name)
