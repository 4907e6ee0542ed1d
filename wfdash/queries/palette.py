"""One search over everything: what a text may mean, and what of that a person may see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, F, Q
from django.db.models.functions import Now

from checkpoints.database.alias import connection
from checkpoints.limits import findable
from checkpoints.models import Checkpoint, Claim, HumanRequest, Run, RunFact
from checkpoints.models.user_model import USERNAME, User, has_name
from checkpoints.records import Phase, frozen, status_of
from wfdash.access.directory import colleagues
from wfdash.access.viewer import EVERY, Viewer
from wfdash.domain.errors import Invalid
from wfdash.domain.search_attributes import TITLE
from wfdash.engines import catalog
from wfdash.queries.account import ViewRow, views_named
from wfdash.queries.requests.inbox import ASKED, PENDING, RequestRow, filter_requests, request_rows
from wfdash.queries.requests.inbox import FILTER as REQUESTS
from wfdash.queries.run_names import run_in, subjects_of, title_of
from wfdash.queries.runs.filter_keys import FILTER as RUNS
from wfdash.queries.runs.filter_keys import search_for
from wfdash.queries.runs.finding import find, prefix_end
from wfdash.queries.search import Flaw, Term, Word, split, too_long
from wfdash.records.search import FoundCheckpoint, FoundRun, FoundWorkflow

MOST_FOUND = 6
"""Runs and requests that are shown, and workflows."""
KIND_ROWS = 3
"""Rows of each kind that an id leads to, and people."""
MAX_SCANNED_ROWS = 1_000
"""Runs, and open requests, that are scanned: the newest."""


class CheckpointHit(FoundCheckpoint):
    """A checkpoint that an id leads to."""

    workflow: str


@frozen
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
        ids_of_runs=_runs(viewer, ids.run)[:KIND_ROWS],
        ids_of_requests=request_rows(viewer, ids.request)[:KIND_ROWS] if ids.request else (),
        checkpoints=_checkpoints(viewer, ids.checkpoint)[:KIND_ROWS],
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
        views=views_named(viewer, intent.names, KIND_ROWS) if intent.names else (),
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
    return intent, list(find(search, None, MOST_FOUND, reach=MAX_SCANNED_ROWS).ids)


def _runs(viewer: Viewer, ids: list[str]) -> tuple[FoundRun, ...]:
    """Return these runs in their order (three queries); those they may not see are left out."""
    if not ids:
        return ()
    columns = ("id", "workflow", "title", "own_title", "summary", "phase", "acted_by")
    found = {row["id"]: row for row in Run.objects.filter(viewer.scope("see"), pk__in=ids).values(*columns)}
    claims = _claims([one for one, row in found.items() if row["phase"] == Phase.READY])
    named = {one: run_in(row) for one, row in found.items()}
    subjects = subjects_of(viewer, named.values())
    titles = {
        one: title_of(run, viewer.may("inspect", run.workflow), subjects.get(one, "")) for one, run in named.items()
    }
    return tuple(_run_hit(found[one], titles[one], claims.get(one)) for one in dict.fromkeys(ids) if one in found)


def _run_hit(row: dict[str, Any], title: str, live: bool | None) -> FoundRun:
    status = status_of(
        Phase.stored(row["phase"]), claimed=live is not None, claim_live=bool(live), acted_by=row["acted_by"]
    )
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
    edge = list(newest[MAX_SCANNED_ROWS : MAX_SCANNED_ROWS + 1])
    rows = HumanRequest.objects.filter(ASKED, viewer.scope("see"), filter_requests(viewer, intent.requests))
    rows = rows.filter(created__gt=edge[0]) if edge else rows
    return request_rows(viewer, list(rows.order_by("-created", "-id").values_list("id", flat=True)[:MOST_FOUND]))


def _workflows(viewer: Viewer, right: str, words: tuple[str, ...], called: str = "") -> tuple[FoundWorkflow, ...]:
    """Return the loaded workflows with these words in title or name for which the person has the right, by title."""
    found = (
        FoundWorkflow.trusted(name=entry.name, title=entry.description.title or entry.name)
        for entry in catalog.entries()
        if words and viewer.may(right, entry.name)
    )
    matching = [hit for hit in found if named(words, f"{called} {hit.title} {hit.name}".strip())]
    return tuple(sorted(matching, key=lambda hit: hit.title)[:MOST_FOUND])


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
        people.filter(has_name(words[0], "icontains")).order_by(USERNAME).values_list(USERNAME, flat=True)[:KIND_ROWS]
    )


# Runs, requests and checkpoints by their id, its beginning or its end (one query): candidates, seen or not.

MOST_ALIKE = 50
"""Candidates of each kind: those that the person may see are found among them."""
MAX_ENDS = 1_000
"""Requests and checkpoints whose ends are looked at."""
SHOWN_ID_CHARACTERS = 8
"""How many characters of a run's id lists show."""
TABLES = {"run": Run._meta.db_table, "request": HumanRequest._meta.db_table, "checkpoint": Checkpoint._meta.db_table}
EXACT = "SELECT '{kind}' AS kind, id FROM {table} WHERE id = %s"
BEGINS = "SELECT '{kind}', id FROM (SELECT id FROM {table} WHERE id {least} %s AND id {below} %s ORDER BY {newest} LIMIT {most}) AS {kind}_begins"  # noqa: E501
ENDS = (
    "SELECT '{kind}', id FROM (SELECT id FROM {table} ORDER BY id DESC LIMIT {reach}) AS {kind}_ends WHERE id LIKE %s"
)
TAILS = "SELECT 'run', run_id FROM (SELECT run_id FROM {table} WHERE name = %s AND text {least} %s AND text {below} %s LIMIT {most}) AS tails"  # noqa: E501


@frozen
class Candidates:
    """Ids of each kind, newest first where they are many."""

    run: list[str] = field(default_factory=list)
    request: list[str] = field(default_factory=list)
    checkpoint: list[str] = field(default_factory=list)


def candidates(wanted: str) -> Candidates:
    """Return what has this id, or one that begins or ends so (one query); nothing for an empty text."""
    parts = _parts(wanted) if wanted else []
    found = Candidates()
    if not parts:
        return found
    with connection().cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(sql for sql, _ in parts), [findable(one) for _, given in parts for one in given]
        )
        for kind, id_ in cursor.fetchall():
            ids: list[str] = getattr(found, kind)
            if id_ not in ids and _matches(id_, wanted):
                ids.append(id_)
    return found


def _parts(wanted: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the statements whose rows together are the candidates, each with its parameters."""
    if is_whole(wanted) or not is_end(wanted):
        # Ids of runs and checkpoints may be any text.
        kinds = TABLES if is_end(wanted) else ("run", "checkpoint")
        return [(_sql(EXACT, kind), (wanted.lower() if is_whole(wanted) else wanted,)) for kind in kinds]
    text, tail = wanted.lower(), wanted.lower()[-SHOWN_ID_CHARACTERS:]
    parts: list[tuple[str, tuple[str, ...]]] = [
        (_sql(BEGINS, kind), (text, _after(text))) for kind in TABLES if is_beginning(text)
    ]
    parts += [(_sql(ENDS, kind), (f"%{text}",)) for kind in ("request", "checkpoint")]
    return [*parts, (_sql(TAILS, "run", RunFact._meta.db_table), (TITLE, tail, _after(tail)))]


def _sql(template: str, kind: str, table: str = "") -> str:
    postgres = connection().vendor == "postgresql"
    # The operators that compare bytes: an index of its own serves them, whatever the language.
    least, below, newest = ("~>=~", "~<~", "id USING ~>~") if postgres else (">=", "<", "id DESC")
    given: dict[str, Any] = {"least": least, "below": below, "newest": newest, "most": MOST_ALIKE, "reach": MAX_ENDS}
    return template.format(kind=kind, table=table or TABLES[kind], **given)


def _after(prefix: str) -> str:
    return prefix_end(prefix) or prefix


def _matches(id_: str, wanted: str) -> bool:
    """Return whether an id is the text, begins or ends so, or is shown as something that begins so."""
    if not is_end(wanted):
        return id_ == wanted
    text, whole = wanted.lower(), id_.lower()
    return whole.startswith(text) or whole.endswith(text) or whole[-SHOWN_ID_CHARACTERS:].startswith(text)


# What a text in the search over everything may mean: an id, names, a filter of runs, a filter of requests. Pure.

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
PART = re.compile(r"[0-9a-f-]{4,36}")
MIN_BEGINNING = 6
"""Ids begin with the time: fewer characters are those of every run."""
CUT = "….#"
"""What stands before the end of an id where the rest is left out."""
MIN_TEXT = 2
"""One character finds pages, workflows and actions only."""
MOST_FLAWS = 5
RUN_KEYS = {one.key for one in RUNS.qualifiers}
REQUEST_KEYS = {one.key for one in REQUESTS.qualifiers}


@frozen
class Intent:
    """What a text asks for. A filter is None where the text says something that its list does not know."""

    id: str = ""
    """An id, or one's beginning or end; empty if the text cannot be one."""
    names: tuple[str, ...] = ()
    """Words by which pages, workflows and people are looked for; none where the text filters."""
    runs: str | None = None
    requests: str | None = None
    flaws: tuple[Flaw, ...] = ()
    """The parts that neither list understands. They are left out."""


def read_intent(text: str) -> Intent:
    """Return what a text asks for. Never raises: what cannot be understood is left out, and in ``flaws``."""
    text = text.strip()
    address = UUID.findall(text.lower()) if "/" in text else []
    if address:
        return Intent(id=address[-1])
    parts = [(part, said) for part, said in split(text) if not (isinstance(said, Word) and not said.text)]
    flaws = [*too_long(text)]
    kept = []
    for part, said in parts:
        flaw = _flaw(part)
        if flaw is None:
            kept.append((part, said))
        else:
            flaws.append(flaw)
    return _intent(kept, tuple(flaws[:MOST_FLAWS]))


def is_whole(text: str) -> bool:
    """Return whether a text is an id as wfdash makes them."""
    return UUID.fullmatch(text.lower()) is not None


def is_beginning(text: str) -> bool:
    """Return whether a text may be how an id begins."""
    return is_end(text) and len(text) >= MIN_BEGINNING


def is_end(text: str) -> bool:
    """Return whether a text may be how an id ends."""
    return PART.fullmatch(text.lower()) is not None


def _intent(kept: list[tuple[str, Term | Word]], flaws: tuple[Flaw, ...]) -> Intent:
    if not kept:
        return Intent(flaws=flaws)
    words = [said for _, said in kept if isinstance(said, Word)]
    if len(kept) == 1 and len(kept[0][0]) < MIN_TEXT:
        return Intent(names=tuple(word.text.casefold() for word in words), flaws=flaws)
    # The list of runs looks for letters and digits: a sign between words says nothing to it.
    known = [part for part, said in kept if isinstance(said, Term) or not RUNS.read(part).flaws]
    runs, requests = " ".join(known), " ".join(part for part, _ in kept)
    plain = len(words) == len(kept) and not any(word.negated for word in words)
    return Intent(
        id=words[0].text.lstrip(CUT) if plain and len(kept) == 1 else "",
        names=tuple(word.text.casefold() for word in words) if plain else (),
        runs=None if not runs or RUNS.read(runs).flaws else runs,
        requests=None if REQUESTS.read(requests).flaws else requests,
        flaws=flaws,
    )


def _flaw(part: str) -> Flaw | None:
    """Return why neither list understands a part; None if one of them does."""
    runs, requests = RUNS.read(part).flaws, REQUESTS.read(part).flaws
    if not (runs and requests):
        return None
    said = next(said for _, said in split(part))
    key = said.key.partition(".")[0] if isinstance(said, Term) else ""
    if key and key not in RUN_KEYS | REQUEST_KEYS:
        return Flaw(part=part, message=f'Unknown filter "{key}". Put text with a colon in quotes.')
    return requests[0] if key and key not in RUN_KEYS else runs[0]
