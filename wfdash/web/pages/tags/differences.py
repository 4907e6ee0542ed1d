"""``{% load differences %}``: what changed between two texts, two values, or in files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

from django import template
from django.utils.safestring import SafeString

from wfdash.web.pages.ui.diff import (
    MAX_FILES,
    DiffLine,
    FileDiff,
    TextRun,
    ValueChange,
    diff_values,
    grouped,
    parse_unified,
)

register = template.Library()


@register.inclusion_tag("components/diff/unified.html")
def unified_diff(text: Any) -> dict[str, Any]:
    """Return a unified diff by file and hunk; text that is no diff is shown unchanged."""
    return {"files": parse_unified(str(text or "")), "text": str(text or "")}


@register.filter
def first_files(files: Sequence[FileDiff]) -> Sequence[FileDiff]:
    """Return the files of a diff that are shown."""
    return files[:MAX_FILES]


@register.filter
def unlisted(files: Sequence[FileDiff]) -> int:
    """Return how many files of a diff are not shown."""
    return max(len(files) - MAX_FILES, 0)


@register.filter
def added(files: Iterable[FileDiff]) -> int:
    """Return how many lines a diff adds."""
    return sum(file.added for file in files)


@register.filter
def removed(files: Iterable[FileDiff]) -> int:
    """Return how many lines a diff removes."""
    return sum(file.removed for file in files)


@register.inclusion_tag("components/diff/values.html")
def value_diff(before: Any, after: Any) -> dict[str, Any]:
    """Return what changed between two JSON values."""
    return {"changes": diff_values(before, after)}


register.filter(grouped)


@register.filter
def undrawn(changes: Iterable[ValueChange]) -> int:
    """Return how many changes are left out."""
    return sum(not change.drawn for change in changes)


@register.filter
def marked(pieces: Iterable[TextRun]) -> SafeString:
    """Return a line of a difference with the changed parts marked, each part in its colour."""
    groups = ((marked, "".join(map(_run_html, runs))) for marked, runs in groupby(pieces, key=lambda run: run.marked))
    return SafeString("".join(f"<mark>{html}</mark>" if marked else html for marked, html in groups))


def _run_html(run: TextRun) -> str:
    return f'<span class="{run.look}">{escape(run.text)}</span>' if run.look else escape(run.text)


@register.filter
def old_number(line: DiffLine | None) -> str:
    """Return a line's number before the change; of a removed one that takes comments, the button that begins one."""
    return _number_html(line.old, line.spot if line.kind == "removed" else "") if line else ""


@register.filter
def new_number(line: DiffLine | None) -> str:
    """Return a line's number after the change; of one that takes comments, the button that begins one."""
    return _number_html(line.new, line.spot) if line else ""


def _number_html(number: int | None, spot: str) -> str:
    if number is None or not spot:
        return str(number or "")
    return SafeString(
        f'<button class="line-button" form="answer-form" name="_comment" value="{escape(spot)}" tabindex="-1"'
        f' aria-label="Comment on line {number}">{number}</button>'
    )
