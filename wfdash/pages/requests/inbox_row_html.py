"""A row of the inbox as HTML. In Python: as templates, fifty rows would take most of the page's time."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.html import format_html
from django.utils.safestring import SafeString

from wfdash.pages.requests.inbox_rows import InboxRow
from wfdash.pages.ui.event_text import past
from wfdash.pages.ui.icons import RISKS, draw_icon
from wfdash.pages.ui.time_html import draw_time

UNREAD = SafeString('<span class="unread-dot" title="Not opened yet"></span><span class="visually-hidden">New: </span>')
NOTHING = SafeString("")
ROW = (
    '<li id="row-{id}" class="{classes}" data-row="{id}" data-nav-row>{box}'
    '<a class="row-link" href="{href}" data-nav data-cell="row"{here}>'
    '<span class="row-mark">{unread}</span><span class="row-risk">{risk}</span>'
    '<span class="row-title" title="{subject}">{subject}</span>'
    '<span class="row-run" title="{run} · {step}">{run} · {step}</span>'
    '<span class="row-meta">{meta}</span></a></li>'
)


def render_row(line: InboxRow) -> SafeString:
    """Return the row as a list item."""
    row = line.row
    return format_html(
        ROW,
        id=row.id,
        classes=line.classes,
        box=_box(line) if line.selectable else NOTHING,
        href=line.href,
        here=SafeString(' aria-current="true"') if line.here else NOTHING,
        unread=UNREAD if row.unread and row.open and not line.answered else NOTHING,
        risk=_risk(row.risk) if row.risk and not line.gone else NOTHING,
        subject=row.subject,
        run=row.run_title,
        step=line.step,
        meta=SafeString("".join((*_marks(line), *_times(line)))),
    )


def _box(line: InboxRow) -> SafeString:
    return format_html(
        '<label class="row-tick"><input type="checkbox" name="request" value="{}" form="inbox-chosen"'
        ' aria-label="Select {}"></label>',
        line.row.id,
        line.row.subject,
    )


def _risk(level: str) -> SafeString:
    kind, drawing = (level if level in RISKS else "unknown"), draw_icon(RISKS.get(level, "question-mark-circle"), 16)
    return format_html(
        '<span class="risk-icon is-{0}" title="{1} risk">{2}<span class="visually-hidden">{1} risk: </span></span>',
        kind,
        level,
        drawing,
    )


def _times(line: InboxRow) -> Iterator[SafeString]:
    row = line.row
    if line.gone:
        yield format_html('<span class="row-gone">{}{}</span>', draw_icon("check-circle", 16), line.gone)
    elif line.answered:
        words = past(row.verdict) if row.answered else "given"
        yield format_html('<span class="chip tone is-completed">{}</span>', words)
        if row.answered:
            yield format_html('<span class="row-when">{}</span>', draw_time(row.answered))
    else:
        yield format_html('<span class="row-when" title="Asked">{}</span>', draw_time(row.created))
        if line.due:
            words = "overdue, " if line.due == "late" else "due "
            moment = draw_time(row.due, due=True)
            yield format_html(DUE, line.due, CLOCK, words, moment)


def _marks(line: InboxRow) -> Iterator[SafeString]:
    row = line.row
    if row.here:
        names = ", ".join(row.here)
        hint = SafeString('<span class="visually-hidden"> is viewing</span>')
        eye = draw_icon("eye", 16)
        yield format_html(
            '<span class="inbox-here" title="{0} is viewing">{1}<span>{0}</span>{2}</span>', names, eye, hint
        )
    if row.asked and row.open:
        yield ASKED
    if line.whom and not line.gone and not line.answered:
        yield _whom(line)


def _whom(line: InboxRow) -> SafeString:
    taken = bool(line.row.assignee)
    words = "Assigned to" if taken else "For"
    return format_html(
        '<span class="inbox-who{}" title="{} {}">{}<span class="visually-hidden">{} </span><span>{}</span></span>',
        " has-one" if taken else "",
        words,
        line.whom,
        draw_icon("user" if taken else "user-group", 16),
        words,
        line.whom,
    )


CLOCK = draw_icon("clock", 16)
DUE = '<span class="row-due due-{}">{}<span class="due-words">{}</span>{}</span>'
ASKED = format_html(
    '<span class="inbox-asked" title="Information requested">{}<span>information requested</span></span>',
    draw_icon("chat-bubble-left-ellipsis", 16),
)
