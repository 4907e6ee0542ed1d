"""What must be true once the dust has settled, read from the tables and the ledger alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.faults.graphs import right_effects, right_output
from tests.faults.ledger import Line, read_facts, read_ledger
from tests.faults.tables import Row, Tables


@dataclass
class Findings:
    """What was wrong, by kind; and how much was looked at."""

    wrong_ends: list[str] = field(default_factory=list)
    lost_starts: list[str] = field(default_factory=list)
    lost_answers: list[str] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)
    repeated_steps: list[str] = field(default_factory=list)
    wrong_effects: list[str] = field(default_factory=list)
    stale_writes: list[str] = field(default_factory=list)
    left_claims: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)

    def problems(self) -> dict[str, list[str]]:
        """Return the kinds of trouble that there were."""
        return {name: found for name, found in vars(self).items() if name != "seen" and found}


@dataclass(frozen=True, kw_only=True)
class Promised:
    """What clients were told: start keys with their run ids, request ids with the answers that were accepted."""

    starts: dict[str, str]
    answers: dict[str, Any]


def look(tables: Tables, ledger: Path, promised: Promised, commits: Path | None = None) -> Findings:
    """Look at everything."""
    found, lines = Findings(), defaultdict(list)
    for line in read_ledger(ledger):
        lines[line.run].append(line)
    runs = tables.runs()
    _check_starts(found, runs, promised)
    for run in runs:
        _check_run(found, tables, run, lines[run["id"]], promised)
    found.left_claims = [claim["run_id"] for claim in tables.claims()]
    if commits is not None:
        _check_commits(found, read_facts(commits))
    return found


def _check_starts(found: Findings, runs: list[Row], promised: Promised) -> None:
    known = {run["start_key"]: run["id"] for run in runs}
    found.lost_starts += [key for key, run in promised.starts.items() if known.get(f"admin:{key}") != run]
    found.seen["runs"] = len(runs)
    found.seen["starts"] = len(promised.starts)
    found.seen["answers"] = len(promised.answers)


def _check_run(found: Findings, tables: Tables, run: Row, lines: list[Line], promised: Promised) -> None:
    id_, events = run["id"], tables.events(run["id"])
    number = run["input"]["number"]
    expected = right_output(run["workflow"], number)
    if run["phase"] != "completed" or run["output"] != expected:
        found.wrong_ends.append(f"{run['workflow']} {id_}: {run['phase']} {run['output']!r} {run['error']}")
    found.holes += [f"{id_} {what}" for what in holes(tables, run, events)]
    found.repeated_steps += [f"{id_} {what}" for what in repeated(events, lines)]
    _check_answers(found, tables.requests(id_), promised)
    _check_effects(found, run, tables.effects(id_), lines)
    kinds = Counter(event["kind"] for event in events)
    found.seen.update({"steps": kinds["step.finished"], "recoveries": kinds["run.recovered"], "events": len(events)})
    found.seen["unknown outcomes"] += kinds["call.unknown"]


def holes(tables: Tables, run: Row, events: list[Row]) -> Iterable[str]:
    """Say where events or checkpoints have a gap or a double, or do not agree with the run's own counters."""
    seqs, checkpoints = [event["seq"] for event in events], tables.checkpoints(run["id"])
    ns = [checkpoint["n"] for checkpoint in checkpoints]
    if seqs != list(range(1, run["seq"] + 1)):
        yield f"events: {seqs}, the run says {run['seq']}"
    if ns != list(range(1, run["n"] + 1)):
        yield f"checkpoints: {ns}, the run says {run['n']}"
    for before, after in pairwise(checkpoints):
        if after["parent"] != before["id"]:
            yield f"checkpoint {after['n']} does not follow {before['n']}"


def repeated(events: list[Row], lines: list[Line]) -> Iterable[str]:
    """Say which steps were finished twice, or began again after a step that came after their end had begun."""
    ends = Counter(e["data"]["activation"] for e in events if e["kind"] == "step.finished")
    yield from (f"activation {act} finished {count} times" for act, count in ends.items() if count > 1)
    places: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        places.setdefault(line.activation, []).append(place)
    last_of_finished = -1
    for event in events:
        act = event["data"].get("activation")
        if event["kind"] == "step.finished":
            last_of_finished = max([last_of_finished, *places.get(act, [])])
        elif event["kind"] == "step.started" and places.get(act, [last_of_finished + 1])[0] <= last_of_finished:
            yield f"a step that had been finished began again after activation {act}"


def _check_answers(found: Findings, requests: list[Row], promised: Promised) -> None:
    for request in requests:
        if request["id"] in promised.answers and request["value"] != promised.answers[request["id"]]:
            found.lost_answers.append(f"{request['id']}: {request['value']!r} is not what was accepted")
        if request["answer"] and request["closed_as"] != "taken":
            found.lost_answers.append(f"{request['id']}: answered but {request['closed_as'] or 'open'}")


def _check_effects(found: Findings, run: Row, effects: list[Row], lines: list[Line]) -> None:
    once = Counter(line.key for line in lines if line.kind == "once")
    found.seen["once effects"] += len(once)
    found.wrong_effects += [f"{key} happened {count} times" for key, count in once.items() if count > 1]
    recorded = {effect["key"] for effect in effects if effect["once"] and effect["state"] == "done"}
    wanted = right_effects(run["workflow"], run["input"]["number"])
    if recorded != once.keys() or len(once) != wanted:
        found.wrong_effects.append(f"{run['id']}: {len(once)} happened, {len(recorded)} recorded, {wanted} expected")
    results = Counter(effect["key"] for effect in effects)
    found.wrong_effects += [f"{key} was recorded {count} times" for key, count in results.items() if count > 1]


def _check_commits(found: Findings, commits: list[dict[str, Any]]) -> None:
    """Epochs never go back along a run's seq: no one wrote after someone else had taken over."""
    found.seen["commits noted"] = len(commits)
    highest: dict[str, tuple[int, int]] = {}
    for commit in sorted(commits, key=lambda c: (c["run"], c["seq"], c["epoch"])):
        seq, epoch = highest.get(commit["run"], (0, 0))
        if commit["epoch"] < epoch and commit["seq"] >= seq:
            found.stale_writes.append(f"{commit['run']}: seq {commit['seq']} under epoch {commit['epoch']} < {epoch}")
        highest[commit["run"]] = commit["seq"], max(epoch, commit["epoch"])
