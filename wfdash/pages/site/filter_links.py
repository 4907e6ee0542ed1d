"""Addresses of lists by what they shall find: every number of a chart leads to what it counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from urllib.parse import quote_plus, urlencode

from django.urls import reverse

NEEDS_QUOTES = frozenset(' ,"<>')


def term(key: str, value: str) -> str:
    """Return a term of a filter; a value with blanks, commas or signs is quoted."""
    plain, quote, _ = value.partition('"')
    # A filter has no way to write a quote: what begins so is found.
    value = f"{plain}*" if quote else value
    return f'{key}:"{value}"' if NEEDS_QUOTES & set(value) else f"{key}:{value}"


def error_term(error: str) -> str:
    """Return the term for a class of errors; of runs whose class is unknown where it is empty."""
    return term("error", error) if error else "-error:*"


class ListLinks:
    """Addresses of one list by what it shall find. Its path is looked up once: charts have hundreds of links."""

    def __init__(self, page: str) -> None:
        """Look up the path of ``runs`` or ``decisions``."""
        self._path = reverse(f"wfdash:{page}")

    def __call__(self, *terms: str, workflow: str = "") -> str:
        """Return the address of what these terms find, of one workflow or of all."""
        found = _joined(terms, workflow)
        return f"{self._path}?{urlencode({'q': found})}" if found else self._path

    def by_time(self, *terms: str, key: str, workflow: str = "") -> Callable[[str], str]:
        """Return what returns the address of what these terms find in a range of times, which the key filters by.

        The same as with ``f"{key}:{range}"`` as the last term, without putting it together again for each range.
        """
        before = quote_plus(" ".join([*filter(None, terms), f"{key}:"]))
        after = quote_plus(f" {term('workflow', workflow)}") if workflow else ""
        return lambda when: f"{self._path}?q={before}{_quoted(when)}{after}"


@lru_cache(maxsize=256)
def _quoted(when: str) -> str:
    return quote_plus(when)


def runs_address(*terms: str, workflow: str = "") -> str:
    """Return the address of the runs that these terms find, of one workflow or of all."""
    return ListLinks("runs")(*terms, workflow=workflow)


def decisions_address(*terms: str, workflow: str = "") -> str:
    """Return the address of the decisions that these terms find, of one workflow or of all."""
    return ListLinks("decisions")(*terms, workflow=workflow)


def _joined(terms: tuple[str, ...], workflow: str) -> str:
    return " ".join([*filter(None, terms), *([term("workflow", workflow)] if workflow else [])])
