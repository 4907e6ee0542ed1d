"""Pages of the audit: entries, exports, the printable record of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils import timezone

from wfdash.actions.runs.bulk import record_export
from wfdash.domain.errors import Invalid, NotAllowed, NotFound
from wfdash.domain.labels import visible
from wfdash.domain.receipts import UNREADABLE, challenge_of, flaw_of, key_name
from wfdash.engines.catalog import title_of, titles
from wfdash.notifications.rendering import render
from wfdash.queries.audit import (
    FILTER,
    Evidence,
    check_export,
    entries_of_run,
    evidence_of,
    exported_form,
    exported_rows,
    pack,
    read_entries,
    read_entry,
    read_evidence,
)
from wfdash.queries.requests.request import read_request, receipts_of
from wfdash.queries.run_names import titles_of
from wfdash.queries.runs.listing import read_run
from wfdash.queries.statistics.oversight import read_oversight, sign_report
from wfdash.questions.policy import Policy, sentence
from wfdash.records.audit import AuditRecord
from wfdash.web.pages.requests.batch import DECIDED
from wfdash.web.pages.site.decorators import get_page, number_in, viewer_of
from wfdash.web.pages.site.list_page import flaws_of, pages_context, read_address, search_context
from wfdash.web.pages.ui import card
from wfdash.web.pages.ui.drawing import scannable
from wfdash.web.pages.ui.event_text import past
from wfdash.web.pages.ui.fragments import csv_text, harmless
from wfdash.web.pages.ui.parts import effort_of_card
from wfdash.web.pages.ui.times import counted

COLUMNS = (
    "n",
    "at",
    "actor",
    "right",
    "verb",
    "workflow",
    "run",
    "request",
    "subject",
    "verdict",
    "stands",
    "reason",
    "value",
    "seen",
    "hash",
)


@get_page
def acts(request: HttpRequest) -> HttpResponse:
    """Show one page of entries, newest first; ``q`` filters, ``after`` is the cursor of the next page."""
    viewer, place = viewer_of(request), read_address("audit", request.GET)
    context = search_context(place, FILTER)
    try:
        found = read_entries(viewer, place.q, cursor=request.GET.get("after", ""), far=bool(request.GET.get("far")))
    except Invalid as error:
        return render(request, "audit/page.html", context | {"flaws": flaws_of(error)}, status=422)
    called = titles_of(viewer, [row.run for row in found.items if row.run])
    context["rows"] = [(_legible(row), called.get(row.run or "", "")) for row in found.items]
    return render(request, "audit/page.html", context | pages_context(place, found))


@get_page
def act(request: HttpRequest, n: int) -> HttpResponse:
    """Show one entry: who, by which right, what exactly was shown, what was changed, and why."""
    viewer = viewer_of(request)
    row = _legible(read_entry(viewer, n))
    title = title_of(row.workflow)
    run_title = titles_of(viewer, [row.run]).get(row.run, "") if row.run else ""
    context = entry_context(row, read_evidence(row)) | {"title": title, "run_title": run_title}
    return render(request, "audit/entry.html", context)


@get_page
def shown(request: HttpRequest, n: int) -> HttpResponse:
    """Show the page as it was rendered then, without working buttons."""
    row = read_entry(viewer_of(request), n)
    evidence = read_evidence(row)
    if evidence is None or not evidence.page:
        raise NotFound("No content was recorded for this entry")
    response = render(request, "audit/shown.html", {"row": row, "html": evidence.page})
    # Stored pages must never run or send anything, even if they were altered.
    policy = "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'; form-action 'none'"
    response["Content-Security-Policy"] = policy
    return response


@get_page
def export(request: HttpRequest, kind: str) -> StreamingHttpResponse:
    """Send the entries the filter finds, as a JSON pack that ``wfdash verify`` checks, or as CSV, in chunks."""
    viewer, text, now = viewer_of(request), request.GET.get("q", "").strip(), timezone.now()
    check_export(viewer, text)
    record_export(viewer, "audit", text=text, kind=kind)
    pieces: Iterator[bytes | str]
    if kind == "csv":
        pieces, media = as_csv(exported_rows(viewer, text)), "text/csv; charset=utf-8"
    else:
        pieces, media = pack(viewer, text, exported=now), "application/json"
    response = StreamingHttpResponse(pieces, content_type=media)
    response["Content-Disposition"] = f'attachment; filename="wfdash-audit-{now:%Y%m%d-%H%M%S}.{kind}"'
    return response


MAX_LISTED = 50
"""Entries of a run that its page shows together."""
MOST_EFFORT = 300_000
"""Microseconds that they may take to be drawn, but for the last of them."""


@get_page
def trail(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show every action of a person on a run on printable pages; ``from``: how many are on the pages before."""
    viewer, begin = viewer_of(request), number_in(request.GET.get("from", ""))
    run, entries, left = read_run(viewer, run_id), list[dict[str, Any]](), MOST_EFFORT
    rows = entries_of_run(viewer, run_id, begin, end=begin + MAX_LISTED + 1)
    shown = evidence_of(rows)
    for row in rows[:MAX_LISTED]:
        if left > 0:
            evidence = shown.get(row.n)
            entries.append(entry_context(_legible(row), evidence))
            drawn = ({"proposal": row.facts}, evidence and evidence.card)
            left -= sum(effort_of_card(one) for one in drawn if one)
    context = {
        "run": run,
        "entries": entries,
        "begin": begin,
        "later": len(entries) < len(rows) and begin + len(entries),
        "now": timezone.now(),
        "query": urlencode({"q": f"run:{run_id}"}),
    }
    return render(request, "audit/trail.html", context)


MONTHS = 13
"""Months to choose from, this one included."""


@get_page
def oversight(request: HttpRequest) -> HttpResponse:
    """Show how people oversaw a ``workflow`` in a ``month``, on a page to print; ``kind=json``: signed, as a file."""
    viewer, today = viewer_of(request), timezone.now()
    mine = [(name, title) for name, title in sorted(titles().items()) if viewer.may("operate", name)]
    if not mine:
        raise NotAllowed("Reports of oversight are for the operators of a workflow")
    workflow, month = request.GET.get("workflow") or mine[0][0], request.GET.get("month") or f"{today:%Y-%m}"
    found = read_oversight(viewer, workflow, month)
    if request.GET.get("kind") == "json":
        record_export(viewer, "oversight", text=f"{workflow} {month}", kind="json")
        response = HttpResponse(json.dumps(sign_report(found), indent=2), content_type="application/json")
        response["Content-Disposition"] = f'attachment; filename="oversight-{month}.json"'
        return response
    before = [(today.year * 12 + today.month - 1 - back) for back in range(MONTHS)]
    context = {
        "report": found,
        "title": title_of(workflow),
        "workflows": mine,
        "months": [f"{one // 12}-{one % 12 + 1:02}" for one in before],
        "ways": [(DECIDED[way], count) for way, count in found.decisions.items()],
        "decided": sum(found.decisions.values()),
        "kept": "forever" if found.kept_days is None else counted(found.kept_days, "day"),
        "query": urlencode({"workflow": workflow, "month": month, "kind": "json"}),
    }
    return render(request, "audit/oversight.html", context)


def entry_context(row: AuditRecord, evidence: Evidence | None) -> dict[str, Any]:
    """Return the template context of an entry, and of what was shown then."""
    rest = {
        name: value for name, value in row.facts.items() if name not in _SHOWN_FACTS and value not in (None, "", {})
    }
    context: dict[str, Any] = {"row": row, "rest": rest, "page": bool(evidence and evidence.page)}
    if evidence is not None and evidence.card is not None:
        face = {name: value for name, value in evidence.card.items() if name != "actions"}
        context["card"] = card.build(face, {"type": "null"})
        context["policy"] = sentence(Policy.model_validate(evidence.policy))
    return context


def _legible(row: AuditRecord) -> AuditRecord:
    """Return an entry as pages show it: no character of its texts is invisible, also in entries of before."""
    texts = {name: visible(value) for name, value in row.facts.items() if isinstance(value, str)}
    return row.model_copy(update={"facts": {**row.facts, **texts}})


_SHOWN_FACTS = frozenset(
    {
        "subject",
        "verdict",
        "stands",
        "reason",
        "value",
        "proposal",
        "edited",
        "seen",
        "page",
        "via",
        "acting_for",
        "token",
        "reply",
        "settles",
    }
)


def as_csv(portions: Iterable[list[AuditRecord]]) -> Iterator[str]:
    """Yield entries as CSV with a header; a cell that a spreadsheet would run as a formula is quoted as text."""
    yield csv_text([list(COLUMNS)])
    for rows in portions:
        facts = ({**row.facts, **exported_form(row)} for row in rows)
        yield csv_text([[_cell(one.get(name)) for name in COLUMNS] for one in facts])


def _cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if isinstance(value, int | float) else harmless(text)


TEXTS: dict[str, str] = {
    "start": "Started run",
    "retry": "Retried run",
    "cancel": "Cancelled run",
    "pause": "Paused run",
    "resume": "Resumed run",
    "signal": "Sent signal",
    "tag": "Changed tags",
    "delete": "Deleted run",
    "migrate": "Migrated run",
    "override": "Continued run on the current version",
    "restore": "Restored checkpoint",
    "fork": "Forked run",
    "follow-up": "Followed up on run",
    "label": "Labelled checkpoint",
    "delete-checkpoint": "Deleted checkpoint",
    "delete-old": "Removed old runs",
    "answer": "Answered",
    "remind": "Reminder sent",
    "escalate": "Escalated",
    "extend": "Changed due date",
    "fail": "Not answered in time",
    "assign": "Changed assignee",
    "take": "Took over",
    "amend": "Added information",
    "comment": "Commented",
    "ask": "Asked for information",
    "reply": "Replied",
    "refused": "Answer link refused",
    "assign error": "Assigned error",
    "mute error": "Muted error",
    "unmute error": "Unmuted error",
    "away": "Set out of office",
    "back": "Ended out of office",
    "bulk": "Bulk operation",
    "run schedule": "Ran schedule",
    "export": "Exported",
    "grant": "Granted role",
    "change grant": "Changed role",
    "revoke": "Revoked role",
    "share view": "Shared view",
    "unshare view": "Stopped sharing view",
    "add webhook": "Added webhook",
    "switch webhook": "Enabled or disabled webhook",
    "renew webhook secret": "Rotated webhook secret",
    "retire webhook secret": "Revoked old webhook secret",
    "remove webhook": "Removed webhook",
    "add incoming webhook": "Added incoming webhook",
    "change incoming webhook": "Changed incoming webhook",
    "switch incoming webhook": "Enabled or disabled incoming webhook",
    "renew incoming secret": "Rotated secret of incoming webhook",
    "retire incoming secret": "Revoked old secret of incoming webhook",
    "remove incoming webhook": "Removed incoming webhook",
    "resend webhook": "Sent webhook deliveries again",
    "create schedule": "Created schedule",
    "change schedule": "Changed schedule",
    "pause schedule": "Paused schedule",
    "resume schedule": "Resumed schedule",
    "delete schedule": "Deleted schedule",
    "stop schedule": "Schedule stopped automatically",
    "sign in": "Signed in",
    "sign out": "Signed out",
    "make sign-in link": "Created sign-in link",
    "change password": "Changed password",
    "renew password hash": "Renewed password hash",
    "create user": "Created user",
    "change user": "Changed user",
    "delete user": "Deleted user",
    "create group": "Created group",
    "rename group": "Renamed group",
    "delete group": "Deleted group",
    "add to group": "Added to group",
    "remove from group": "Removed from group",
    "add permission": "Added permission",
    "remove permission": "Removed permission",
    "second factor: turn on": "Turned on second factor",
    "second factor: turn off": "Turned off second factor",
    "second factor: renew recovery codes": "Renewed recovery codes",
    "second factor: use recovery code": "Used a recovery code",
    "second factor: remove": "Removed second factor",
    "create service account": "Created service account",
    "connect identity": "Connected with the sign-in provider",
    "disconnect identity": "Disconnected from the sign-in provider",
    "create token": "Created token",
    "revoke token": "Revoked token",
    "end sessions": "Ended sessions",
    "second look": "Gave a second look",
    "settle second look": "Settled a second look",
    "chain broken": "Chain broken",
}


def action_text(verb: str, facts: Mapping[str, Any]) -> str:
    """Return what was done, as text; an action that is not in the table is its own text."""
    verdict = str(facts.get("verdict") or "")
    if verdict and verb == "undo":
        return f"Decision undone ({past(verdict)})"
    if verdict:
        done = past(verdict)
        return f"{done[:1].upper()}{done[1:]}{' (override)' if verb == 'override' else ''}"
    return TEXTS.get(verb, verb[:1].upper() + verb[1:])


@get_page
def receipts(request: HttpRequest, request_id: str) -> HttpResponse:
    """Show who signed a request's answers, to be printed; ``reply``: the file of one, which proves itself."""
    found = read_request(viewer_of(request), request_id)
    kept, wanted = receipts_of(found), request.GET.get("reply", "")
    for reply, _, receipt in kept:
        if reply == wanted:
            headers = {"Content-Disposition": f'attachment; filename="receipt-{reply}.json"'}
            return HttpResponse(json.dumps(receipt, indent=1), content_type="application/json", headers=headers)
    if wanted:
        raise NotFound("This request has no such receipt")
    shown = []
    for reply, undone, receipt in kept:
        digest = challenge_of(receipt["statement"]).hex()
        code = scannable(f"{request.build_absolute_uri(request.path)}#{digest}")
        answer = visible(json.dumps(receipt["statement"]["answer"], ensure_ascii=False))
        flaw = flaw_of(receipt)
        key = "" if flaw == UNREADABLE else key_name(receipt["public_key"])
        facts = {"said": receipt["statement"], "key": key, "digest": digest, "code": code, "flaw": flaw}
        shown.append({"reply": reply, "undone": undone, "answer": answer, **facts})
    return render(request, "requests/signed/receipts.html", {"item": found, "receipts": shown, "now": timezone.now()})
