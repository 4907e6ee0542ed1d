"""The inbox's address: tab, filter, order, saved view, focus."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode

from django.http import QueryDict

from wfdash import queries

MOST_OF = 1_000_000


@dataclass(frozen=True, kw_only=True)
class InboxAddress:
    """A list of requests and its view. ``of``: how many there were when focus mode started."""

    tab: str = "mine"
    q: str = ""
    sort: str = "age"
    view: str = ""
    focus: bool = False
    of: int = 0

    @property
    def query(self) -> str:
        """Return the query string, without defaults."""
        return urlencode(self.parts)

    @property
    def parts(self) -> dict[str, str]:
        """Return the query parameters. The tab is always there: it says that the person comes from the inbox."""
        found = {"tab": self.tab, "q": self.q, "sort": self.sort if self.sort != "age" else "", "view": self.view}
        found |= {"focus": "1" if self.focus else "", "of": str(self.of or "") if self.focus else ""}
        return {name: value for name, value in found.items() if value}

    @property
    def saved(self) -> str:
        """Return the query string that a saved view stores."""
        return replace(self, view="", focus=False, of=0).query

    def url(self, **changes: str) -> str:
        """Return the address, with parameters added."""
        return "/?" + urlencode({**self.parts, **{name: value for name, value in changes.items() if value}})

    def at(self, **changes: object) -> InboxAddress:
        """Return the address with parts of it changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def read_inbox_address(query: QueryDict | Mapping[str, str]) -> InboxAddress:
    """Return the address that query parameters name; unknown ones get their default."""
    tab, sort = query.get("tab") or "", query.get("sort") or ""
    number = query.get("of") or ""
    return InboxAddress(
        tab=tab if tab in queries.TABS else "mine",
        q=(query.get("q") or "").strip().replace("\0", ""),
        sort=sort if sort in queries.SORTS else "age",
        view=(query.get("view") or "")[:36],
        focus=bool(query.get("focus")),
        of=min(int(number), MOST_OF) if re.fullmatch(r"[0-9]{1,7}", number) else 0,
    )


def inbox_address_in(query: str) -> InboxAddress:
    """Return the address that a saved view's query string names."""
    return read_inbox_address(dict(parse_qsl(query)))
