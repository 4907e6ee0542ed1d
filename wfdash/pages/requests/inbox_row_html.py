"""A row of the inbox as HTML. In Python: as templates, fifty rows would take most of the page's time."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.html import format_html
from django.utils.safestring import SafeString

from wfdash.pages.requests.inbox_rows import InboxRow
from wfdash.pages.ui.event_text import past
from wfdash.pages.ui.icons import draw_icon, draw_risk
from wfdash.pages.ui.time_html import draw_time

UNREAD = SafeString('<span class="unread-dot" title="Not opened yet"></span><span class="visually-hidden">New: </span>')
NOTHING = SafeString("")


def render_row(line: InboxRow) -> SafeString:
    """Return the row as a list item."""
    row = line.row
    marks = _joined(_marks(line))
    return format_html(
        '<li id="row-{0}" class="{1}" data-row="{0}"><a class="row-link" href="{2}" data-nav data-cell="row"{3}>'
        '<span class="row-title">{4}{5}</span><span class="row-meta"><span>{6} · {7}</span>{8}</span>{9}</a></li>',
        row.id,
        line.classes,
        line.href,
        SafeString(' aria-current="true"') if line.here else NOTHING,
        UNREAD if row.unread and row.open and not line.answered else NOTHING,
        row.subject,
        row.run_title,
        line.step,
        _joined(_times(line)),
        format_html('<span class="row-meta row-marks">{}</span>', marks) if marks else NOTHING,
    )


def _joined(parts: Iterator[SafeString]) -> SafeString:
    return SafeString("".join(parts))


def _times(line: InboxRow) -> Iterator[SafeString]:
    row = line.row
    if line.gone:
        yield format_html('<span class="row-gone">{}{}</span>', draw_icon("check-circle", 16), line.gone)
    elif line.answered:
        yield format_html(
            '<span class="chip tone is-completed">{}</span>', past(row.verdict) if row.answered else "given"
        )
        if row.answered:
            yield format_html("<span>{}</span>", draw_time(row.answered))
    else:
        yield format_html('<span title="Asked">{}</span>', draw_time(row.created))
        if line.due:
            words = "overdue, " if line.due == "late" else "due "
            moment = draw_time(row.due, due=True)
            yield format_html('<span class="due-{}">{}{}{}</span>', line.due, draw_icon("clock", 16), words, moment)


def _marks(line: InboxRow) -> Iterator[SafeString]:
    row = line.row
    if row.risk and not line.gone:
        yield draw_risk(row.risk)
    if line.whom and not line.gone and not line.answered:
        taken = bool(row.assignee)
        yield format_html(
            '<span class="inbox-who{}">{}<span class="visually-hidden">{}</span>{}</span>',
            " has-one" if taken else "",
            draw_icon("user" if taken else "user-group", 16),
            "Assigned to " if taken else "For ",
            line.whom,
        )
    if row.asked and row.open:
        drawing = draw_icon("chat-bubble-left-ellipsis", 16)
        yield format_html('<span class="chip tone is-waiting">{}information requested</span>', drawing)
    if row.here:
        hint = SafeString('<span class="visually-hidden"> is viewing</span>')
        yield format_html('<span class="inbox-here">{}{}{}</span>', draw_icon("eye", 16), ", ".join(row.here), hint)
