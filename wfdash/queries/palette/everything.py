"""The search over everything: a few of each kind, found through the viewer, in a bounded number of rows.

At most some twenty-five queries, whatever is stored, each of which reads a bounded part of an index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, F, Q
from django.db.models.functions import Now

from checkpoints.models import Checkpoint, Claim, HumanRequest, Run
from checkpoints.models.user_model import USERNAME, User, has_name
from checkpoints.records import Phase, status_of
from wfdash import catalog
from wfdash.access.directory import colleagues
from wfdash.access.viewer import EVERY, Viewer
from wfdash.errors import Invalid
from wfdash.queries.account.saved_views import ViewRow, views_named
from wfdash.queries.palette.ids import candidates
from wfdash.queries.palette.intent import MIN_TEXT, Intent, is_whole, read_intent
from wfdash.queries.requests.inbox import PENDING, RequestRow, request_rows
from wfdash.queries.requests.qualifiers import filter_requests
from wfdash.queries.requests.tabs import ASKED
from wfdash.queries.run_names import title_in
from wfdash.queries.runs.filtering.qualifiers import search_for
from wfdash.queries.runs.filtering.search import find
from wfdash.queries.search.language import Flaw
from wfdash.records.search import FoundCheckpoint, FoundRun, FoundWorkflow

MOST = 6
"""Runs and requests that are shown, and workflows."""
FEW = 3
"""Rows of each kind that an id leads to, and people."""
REACH = 1_000
"""Runs, and open requests, that are scanned: the newest."""


class CheckpointHit(FoundCheckpoint):
    """A checkpoint that an id leads to."""

    workflow: str


@dataclass(frozen=True, kw_only=True)
class Everything:
    """What a text leads to. ``intent``: how it was understood; its filters are None where they cannot be applied."""

    intent: Intent
    ids_of_runs: tuple[FoundRun, ...] = ()
    ids_of_requests: tuple[RequestRow, ...] = ()
    checkpoints: tuple[CheckpointHit, ...] = ()
    workflows: tuple[FoundWorkflow, ...] = ()
    startable: tuple[FoundWorkflow, ...] = ()
    views: tuple[ViewRow, ...] = ()
    requests: tuple[RequestRow, ...] = ()
    runs: tuple[FoundRun, ...] = ()
    people: tuple[str, ...] = ()

    @property
    def by_id(self) -> bool:
        """Return whether the text is, begins or ends the id of anything."""
        return bool(self.ids_of_runs or self.ids_of_requests or self.checkpoints)


def search_everything(viewer: Viewer, text: str) -> Everything:
    """Return what a text leads to, as far as this person may see it. Never raises for what cannot be understood."""
    intent = read_intent(text)
    ids = candidates(intent.id)
    found = Everything(
        intent=intent,
        ids_of_runs=_runs(viewer, ids.run)[:FEW],
        ids_of_requests=request_rows(viewer, ids.request)[:FEW] if ids.request else (),
        checkpoints=_checkpoints(viewer, ids.checkpoint)[:FEW],
    )
    return found if found.by_id and is_whole(intent.id) else _more(viewer, found)


def _more(viewer: Viewer, found: Everything) -> Everything:
    """Return what the text leads to besides by id."""
    intent = found.intent if viewer.rights else replace(found.intent, runs=None, requests=None)
    intent, runs = _run_ids(viewer, intent)
    known = {*(row.id for row in found.ids_of_runs), *(row.id for row in found.ids_of_requests)}
    return replace(
        found,
        intent=intent,
        workflows=_workflows(viewer, "see", intent.names),
        startable=_workflows(viewer, "start", intent.names, called="start run"),
        views=views_named(viewer, intent.names, FEW) if intent.names else (),
        requests=tuple(row for row in _open_requests(viewer, intent) if row.id not in known),
        runs=tuple(row for row in _runs(viewer, runs) if row.id not in known),
        people=_people(viewer, intent.names),
    )


def named(words: Iterable[str], text: str) -> bool:
    """Return whether each of the words, in lower case, begins a word of a text."""
    whole = text.casefold()
    parts = (whole, *whole.split(), *re.split(r"[\W_]+", whole))
    return all(any(part.startswith(word) for part in parts) for word in words)


def _run_ids(viewer: Viewer, intent: Intent) -> tuple[Intent, list[str]]:
    """Return the newest runs that the filter finds; without them, the intent says why it cannot be applied."""
    if intent.runs is None:
        return intent, []
    try:
        search = search_for(viewer, intent.runs)
    except Invalid as error:
        flaws = tuple(Flaw(part=str(one["loc"][-1]), message=str(one["msg"])) for one in error.errors)
        return replace(intent, runs=None, flaws=(*intent.flaws, *flaws)), []
    return intent, list(find(search, None, MOST, reach=REACH).ids)


def _runs(viewer: Viewer, ids: list[str]) -> tuple[FoundRun, ...]:
    """Return these runs in their order (two queries); those they may not see are left out."""
    if not ids:
        return ()
    columns = ("id", "workflow", "title", "own_title", "summary", "phase", "acted_by")
    found = {row["id"]: row for row in Run.objects.filter(viewer.scope("see"), pk__in=ids).values(*columns)}
    claims = _claims([one for one, row in found.items() if row["phase"] == Phase.READY])
    return tuple(_run_hit(viewer, found[one], claims.get(one)) for one in dict.fromkeys(ids) if one in found)


def _run_hit(viewer: Viewer, row: dict[str, Any], live: bool | None) -> FoundRun:
    status = status_of(Phase(row["phase"]), claimed=live is not None, claim_live=bool(live), acted_by=row["acted_by"])
    title = title_in(row, viewer.may("inspect", row["workflow"]))
    return FoundRun.trusted(id=row["id"], workflow=row["workflow"], title=title, status=status)


def _claims(ids: list[str]) -> dict[str, bool]:
    """Return run id -> whether its claim is live, of those that have one of their epoch."""
    if not ids:
        return {}
    live = ExpressionWrapper(Q(expires__gt=Now()), output_field=BooleanField())
    claims = Claim.objects.filter(run_id__in=ids, epoch__gte=F("run__epoch")).annotate(live=live)
    return dict(claims.values_list("run_id", "live"))


def _checkpoints(viewer: Viewer, ids: list[str]) -> tuple[CheckpointHit, ...]:
    """Return these checkpoints, as far as a person may read their values."""
    if not ids:
        return ()
    columns = ("id", "run_id", "run__workflow", "n", "step")
    rows = Checkpoint.objects.filter(viewer.scope("inspect"), pk__in=ids).order_by("-pk").values_list(*columns)
    return tuple(
        CheckpointHit.trusted(id=id_, run=run, workflow=workflow, n=n, step=step or "")
        for id_, run, workflow, n, step in rows
    )


def _open_requests(viewer: Viewer, intent: Intent) -> tuple[RequestRow, ...]:
    """Return the newest open requests that the filter finds, as the inbox lists them (four queries)."""
    if intent.requests is None:
        return ()
    newest = HumanRequest.objects.filter(PENDING).order_by("-created").values_list("created", flat=True)
    edge = list(newest[REACH : REACH + 1])
    rows = HumanRequest.objects.filter(ASKED, viewer.scope("see"), filter_requests(viewer, intent.requests))
    rows = rows.filter(created__gt=edge[0]) if edge else rows
    return request_rows(viewer, list(rows.order_by("-created", "-id").values_list("id", flat=True)[:MOST]))


def _workflows(viewer: Viewer, right: str, words: tuple[str, ...], called: str = "") -> tuple[FoundWorkflow, ...]:
    """Return the loaded workflows with these words in title or name for which the person has the right, by title."""
    found = (
        FoundWorkflow.trusted(name=entry.name, title=entry.description.title or entry.name)
        for entry in catalog.entries()
        if words and viewer.may(right, entry.name)
    )
    matching = [hit for hit in found if named(words, f"{called} {hit.title} {hit.name}".strip())]
    return tuple(sorted(matching, key=lambda hit: hit.title)[:MOST])


def _people(viewer: Viewer, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of people with a role for what this person operates (one query); none for others.

    Admins of every workflow find everyone, also those without a role.
    """
    operated = {workflow: rights for workflow, rights in viewer.rights.items() if "operate" in rights}
    if not operated or len(words) != 1 or len(words[0]) < MIN_TEXT:
        return ()
    if viewer.may("admin", EVERY):
        people = User.objects.filter(is_active=True)
    else:
        people = colleagues(Viewer(user=viewer.user, name=viewer.name, rights=operated))
    return tuple(
        people.filter(has_name(words[0], "icontains")).order_by(USERNAME).values_list(USERNAME, flat=True)[:FEW]
    )
