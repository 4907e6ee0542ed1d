"""Addresses of lists by what they shall find: every number of a chart leads to what it counts."""

from __future__ import annotations

from wfdash.pages.site.list_address import ListAddress, RunsAddress

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


def runs_address(*terms: str, workflow: str = "") -> str:
    """Return the address of the runs that these terms find, of one workflow or of all."""
    return RunsAddress(q=_joined(terms, workflow)).url()


def decisions_address(*terms: str, workflow: str = "") -> str:
    """Return the address of the decisions that these terms find, of one workflow or of all."""
    return ListAddress(page="decisions", q=_joined(terms, workflow)).url()


def _joined(terms: tuple[str, ...], workflow: str) -> str:
    return " ".join([*filter(None, terms), *([term("workflow", workflow)] if workflow else [])])
