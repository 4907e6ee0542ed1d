"""``{% load wfdash %}``: the components of the design system, as tags and filters, and words for pages."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta
from html import escape
from itertools import groupby
from typing import Any

from django import template
from django.conf import settings
from django.http import HttpRequest
from django.utils.safestring import SafeString

from wfdash.access.viewer import AddressedQuestion, AnswerStanding, Role, all_in
from wfdash.domain.labels import label_of_key
from wfdash.queries.account import service_names
from wfdash.queries.people import EMPTY, MISSING, POWERLESS, step_title
from wfdash.questions.policy import Policy, sentence
from wfdash.records.audit import AuditRecord
from wfdash.web.pages import audit
from wfdash.web.pages.people import role_title
from wfdash.web.pages.requests.inbox import render_row
from wfdash.web.pages.ui import event_text, times
from wfdash.web.pages.ui.card import CardView
from wfdash.web.pages.ui.charts import duration_or_dash
from wfdash.web.pages.ui.diff.lines import DiffLine, TextRun, ValueChange, diff_values, grouped
from wfdash.web.pages.ui.diff.unified import MAX_FILES, FileDiff, parse_unified
from wfdash.web.pages.ui.fragments import draw_icon, draw_risk, render_event_row
from wfdash.web.pages.ui.json_value import pretty, render_value
from wfdash.web.pages.ui.markup import highlight, render_markdown
from wfdash.web.pages.ui.parts import MAX_CELL, MAX_ROWS, read_table
from wfdash.web.pages.ui.time_html import draw_moment, draw_recorded, draw_time, draw_zone, format_html

register = template.Library()
FILTERS: dict[str, Any] = {
    "all_in": all_in,
    "called": event_text.step_label,
    "estimated": duration_or_dash,
    "event_row": render_event_row,
    "in_zone": times.in_zone,
    "inbox_row": render_row,
    "json_pretty": pretty,
    "number": times.number,
    "past": event_text.past,
    "workflow_title": role_title,
}
"""Filters that are functions of other modules, by what templates call them."""
TAGS: dict[str, Any] = {
    "moment": draw_moment,
    "recorded": draw_recorded,
    "risk": draw_risk,
    "service_names": service_names,
    "when": draw_time,
    "zone": draw_zone,
}
"""Tags that are, too."""
for _name, _made in FILTERS.items():
    register.filter(_name, _made)
for _name, _made in TAGS.items():
    register.simple_tag(_made, name=_name)

_TONES = {"success": "good", "warning": "warn", "error": "bad"}
_TONE_ICONS = {"success": "check-circle", "warning": "exclamation-triangle", "error": "x-circle"}
PILL = '<span class="pill is-{0}" data-status="{0}"><span class="pill-dot" aria-hidden="true"></span>{0}</span>'


@register.simple_tag
def icon(name: str, size: int = 20, **attributes: str) -> str:
    """Return a heroicon, hidden from screen readers; its style follows its size (16 micro, 20 mini, 24 outline)."""
    return draw_icon(name, size, tuple(attributes.items()))


@register.simple_tag
def once_key(form: str = "") -> SafeString:
    """Return the hidden field with an idempotency key, so that a form counts once. ``form``: the id of its form."""
    of = format_html(' form="{}"', form) if form else ""
    return format_html('<input type="hidden" name="_key" value="{}"{}>', secrets.token_urlsafe(12), of)


@register.inclusion_tag("components/copy.html")
def copy(what: Any, label: str = "", *, words: str = "", how: str = "copy") -> dict[str, Any]:
    """Return a button that copies, shown only where scripts run. ``label``: what it does, if it shows no ``words``.

    ``how``: ``what`` is a text, an address to copy (``copy-link``) or to fetch (``copy-from``), or the id of the
    element whose text is copied (``copy-of``).
    """
    return {"what": what, "label": label, "words": words, "how": how}


@register.simple_tag
def status(value: Any) -> SafeString:
    """Return a status pill. ``value``: a ``records.Status`` or its text."""
    return format_html(PILL, value)


@register.filter
def tokens(used: Any) -> str:
    """Return the tokens of a run, or of a row of statistics, in and out together: ``12.4k``."""
    return times.compact(used.input_tokens + used.output_tokens)


@register.filter
def cost(used: Any) -> str:
    """Return what a run, or a row of statistics, cost; empty where nothing was used."""
    if not (used.input_tokens or used.output_tokens or used.cost not in {None, "0"}):
        return ""
    return times.money(used.cost, settings.WFDASH_CURRENCY, used.unpriced)


@register.filter
def duration(seconds: float | timedelta | None) -> str:
    """Return seconds (or a timedelta) as text; a dash for None."""
    return times.duration(seconds) if isinstance(seconds, (int, float, timedelta)) else "—"


@register.filter
def ticking(seconds: float | timedelta) -> SafeString:
    """Return a duration that still grows; the browser keeps it current."""
    total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    return format_html('<span data-ticking="{}">{}</span>', f"{total:.3f}", times.duration(total))


@register.filter
def counted(count: int, words: str) -> str:
    """Return a number and what it counts. ``words``: the singular, and after a comma a plural that is not just -s."""
    return times.counted(count, *words.split(","))


@register.filter
def up_to(count: int, most: int) -> str:
    """Return a number as a badge has room for it: ``99+`` for more than 99."""
    return str(count) if count <= most else f"{most}+"


@register.filter(name="bytes")
def size_in_bytes(count: float | None) -> str:
    """Return a number of bytes as text; a dash for None."""
    return times.size(count) if isinstance(count, (int, float)) else "—"


@register.filter
def because(reason: str) -> str:
    """Return the text of the reason a checkpoint was written for."""
    return event_text.REASONS.get(str(reason), str(reason))


@register.filter
def audit_text(row: AuditRecord) -> str:
    """Return the text of an audit entry."""
    return audit.action_text(row.verb, row.facts)


@register.filter
def tone(level: str) -> str:
    """Return the tone class of a Django message level."""
    return _TONES.get(level, "info")


@register.filter
def tone_icon(level: str) -> str:
    """Return the icon of a Django message level."""
    return _TONE_ICONS.get(level, "information-circle")


@register.simple_tag(takes_context=True)
def query_set(context: template.Context, name: str, value: Any) -> str:
    """Return the request's query string with one parameter replaced (removed when empty), without its page."""
    request: HttpRequest = context["request"]
    query = request.GET.copy()
    for stale in ("before", "after", "fragment", name):
        query.pop(stale, None)
    if value not in (None, ""):
        query[name] = str(value)
    return f"?{query.urlencode()}"


@register.inclusion_tag("components/page_links.html")
def page_links(older: str = "", onward: str = "Older") -> dict[str, str]:
    """Return the link to the next page of a keyset-paged list; an empty address leaves it out.

    ``onward`` is what the next page is called: that of a list of what is to come has later entries.
    """
    return {"older": older, "onward": onward}


@register.filter
def markdown(text: Any) -> SafeString:
    """Return untrusted markdown as safe HTML."""
    return render_markdown(str(text or ""))


@register.filter
def comment(text: Any) -> SafeString:
    """Return a comment's untrusted markdown as safe HTML, its code without colour."""
    return render_markdown(str(text or ""), coloured=False)


@register.filter
def mentioned(text: str, names: Iterable[str]) -> str:
    """Return markdown in which the mentions of these people are highlighted."""
    known = "|".join(re.escape(name) for name in names)
    return re.sub(rf"(?<![\w@/.`*])@({known})(?![\w-])", r"**@\1**", text) if known else text


@register.filter
def first_paragraph(text: Any) -> str:
    """Return a text up to its first empty line."""
    return re.split(r"\n\s*\n", str(text or "").strip(), maxsplit=1)[0]


@register.filter
def code(text: Any, language: str = "") -> SafeString:
    """Return a code block, coloured when a language is given."""
    return highlight(str(text or ""), language)


@register.simple_tag
def value(item: Any, levels: int = 1) -> SafeString:
    """Return any JSON value as a folding tree; the first ``levels`` are open."""
    return render_value(item, open_levels=levels)


@register.filter
def tabled(item: Any) -> dict[str, Any] | None:
    """Return a flat object, or a list of alike ones, as a part of a card that is a table; None for anything else."""
    rows = item if isinstance(item, list) else [item]
    alike = 0 < len(rows) <= MAX_ROWS and all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows)
    values = [value for row in rows for value in row.values()] if alike else []
    if not values or any(isinstance(value, dict | list) or len(str(value)) > MAX_CELL for value in values):
        return None
    return {"table": read_table(rows if rows is item else [[label_of_key(name), item[name]] for name in item])}


@register.inclusion_tag("components/card.html", takes_context=True)
def decision_card(context: template.Context, card: CardView) -> dict[str, Any]:
    """Return the whole decision card with its own ``<form>``."""
    around = ("authors", "csrf_token", "here", "item", "nested")
    return {"card": card} | {name: context.get(name) for name in around}


NEEDS = {
    MISSING: "no group or user has this name",
    EMPTY: "no active members",
    POWERLESS: "no member may answer requests there",
}


@register.filter
def question_text(question: AddressedQuestion) -> str:
    """Return where a question is asked: workflow and step, with how many are open."""
    opened = f" ({question.open} open)" if question.open else ""
    return f"{role_title(question.workflow)} / {step_title(question)}{opened}"


@register.filter
def rule_text(question: AddressedQuestion) -> str:
    """Return whom a question is addressed to, as its card says it."""
    named = sentence(Policy(by=question.by, not_by=question.not_by, need=question.need))
    parts = [named or "Decided by any reviewer."]
    if question.escalate:
        parts.append(f"After a while {', '.join(question.escalate)} can also decide.")
    if not question.override:
        parts.append("No override.")
    if not question.certain:
        parts.append("The step may decide otherwise when it runs.")
    return " ".join(parts)


@register.filter
def standing_text(standing: AnswerStanding) -> str:
    """Return whether someone may answer, and why."""
    kinds = {"excluded": f"excluded {standing.words}", "override": "may override (operator, with a reason)"}
    words = kinds.get(standing.kind, f"may answer: {standing.words}")
    return f"{words}, {standing.own}" if standing.own else words


@register.filter
def reason_text(role: Role) -> str:
    """Return a role that gives a right, and where it comes from."""
    where = " of every workflow" if role.everywhere else ""
    source = " as superuser" if role.superuser else f" by group {role.group}" if role.group else ""
    return f"{role.name}{where}{source}"


@register.filter
def need_text(problem: str) -> str:
    """Return why no one answers to a name."""
    return NEEDS.get(problem, problem)


@register.inclusion_tag("components/text_field.html")
def text_field(field: str, label: str, value: Any, problem: str = "", **options: Any) -> dict[str, Any]:
    """Return a one-line field; its name is what follows the last hyphen of its id, ``field``.

    ``options``: ``help``, ``type``, ``most`` characters, ``least`` (a date), ``placeholder``, ``required``; ``plain``:
    the browser neither completes nor corrects it, ``mono``: in the type of code besides.
    """
    given = {"id": field, "name": field.rpartition("-")[2], "label": label, "value": value, "problem": problem}
    return given | options


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
