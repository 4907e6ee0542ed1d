"""``wfdash checkpoints|workflows|schedules|people|audit``, ``me``, ``statistics`` and ``operations``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from wfdash.cli.commands import (
    MOST_DAYS,
    OK,
    argument,
    call,
    command,
    family,
    fields,
    flag,
    in_words,
    json_value,
    limit,
    listed,
    plain_command,
    print_error,
    rows,
    says,
    up_to,
    words,
)
from wfdash.cli.output import Output
from wfdash.cli.runs import RUN, watch_workflow

if TYPE_CHECKING:
    from wfdash.client import Client
    from wfdash.records.checkpoints import StateCounts
    from wfdash.records.people import AccessRecord, GroupRecord, PersonSummary, RoleRecord
    from wfdash.records.statistics import DurationSummary, TimingRecord


def _with_checkpoint(client: Client, given: Namespace) -> dict[str, Any]:
    """Return what was given with the checkpoint's id: a number is that of the run's checkpoint."""
    found = str(given.checkpoint_id)
    if found.isascii() and found.isdigit() and len(found) < 18:
        items = client.checkpoints(given.run_id, after=str(int(found) + 1), limit=1).items
        found = items[0].id if items and items[0].n == int(found) else found
    return {**vars(given), "checkpoint_id": found}


def _show_checkpoint(client: Client, given: Namespace, output: Output) -> None:
    output.fields(client.checkpoint(**_with_checkpoint(client, given)), "id n parent created problem body requests")


def _compare(output: Output, found: Any, given: Namespace) -> None:
    for step in found.moved:
        output.line(f"{step.step}: {_states(step.before)} -> {_states(step.after)}")
    for asked in found.asked:
        output.line(f"request {asked.key}: {'closed' if asked.after is None else 'opened or changed'}")
    for change in found.patch:
        value = f" {change['value']!r}" if "value" in change else ""
        output.line(f"{change['op']} {change['path']}{value}")
    if not (found.moved or found.asked or found.patch):
        output.line(found.problem or "The same")


def _states(counts: StateCounts) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts if count) or "nothing"


def _preview(client: Client, given: Namespace, output: Output) -> None:
    chosen = _with_checkpoint(client, given)
    found = client.preview(given.run_id, chosen["checkpoint_id"], verb="fork" if given.fork else "restore")
    if output.as_json:
        return output.data(found)
    if found.problem:
        output.line(f"not possible: {found.problem}")
    if found.message_due:
        output.line(f"continues with its message: {json.dumps(found.message, ensure_ascii=False)}")
    for text, names in (
        ("runs again", [one.step for one in found.again]),
        ("stays done", [one.step for one in found.stays]),
        ("may run again after that", found.repeats),
        ("calls made again", [one.name for one in found.outside.repeated]),
        ("calls of unknown outcome", [one.name for one in found.outside.unknown]),
        ("opens again", [str(one.request.card.get("subject", one.request.key)) for one in found.reopens]),
        ("closes", [one.subject for one in found.closes]),
    ):
        output.line(f"{text}: {', '.join(' '.join(name.split()) for name in names) or 'nothing'}")
    output.line(f"{found.verb} exactly this with: --seen {found.mark}")
    return None


def _restore(client: Client, given: Namespace, output: Output) -> None:
    chosen = _with_checkpoint(client, given)
    head = client.restore(**chosen)
    result = {"run": given.run_id, "checkpoint": head.id, "n": head.n, "from": chosen["checkpoint_id"]}
    output.result(result, f"Restored checkpoint {given.checkpoint_id} (new checkpoint {head.n}, {head.id})")


def _fork(client: Client, given: Namespace, output: Output) -> None:
    made = client.fork(**_with_checkpoint(client, given))
    output.result({"run": made.id, "n": made.n}, made.id)


def _label(client: Client, given: Namespace, output: Output) -> None:
    done = client.label(**_with_checkpoint(client, given))
    output.result(done, f"Labelled {given.text}" if given.text else "Label removed")


CHECKPOINT = argument("checkpoint_id", "its number in the run, or its ID", metavar="CHECKPOINT")
EDITS = argument("--edits", "JSON: state, messages, answers, reason; @FILE, @-", type=json_value)
SEEN = argument("--seen", "the mark of a preview: refused if more would happen than that", default="")
CHECKPOINTS = family(
    "checkpoints",
    "look at a run's checkpoints, restore and fork",
    command(
        "list",
        "list a run's checkpoints, newest first",
        call(
            "checkpoints",
            lambda output, found, _: output.rows(found.items, "n id step reason waiting clean size created label"),
        ),
        RUN,
        limit(50, dest="limit"),
    ),
    command("show", "show a checkpoint with its content", _show_checkpoint, RUN, CHECKPOINT),
    command(
        "compare",
        "show the differences from one checkpoint to another",
        call("compare", in_words(_compare)),
        RUN,
        argument("a", "its number in the run, or any checkpoint's ID", metavar="A"),
        argument("b", metavar="B"),
    ),
    command(
        "preview",
        "say what restoring or forking would do",
        _preview,
        RUN,
        CHECKPOINT,
        flag("--fork", "instead of restoring"),
    ),
    command("restore", "make a checkpoint the head of its run again", _restore, RUN, CHECKPOINT, EDITS, SEEN),
    command("fork", "start a new run from a checkpoint", _fork, RUN, CHECKPOINT, EDITS, SEEN),
    command(
        "label",
        "label a checkpoint, so that it is kept",
        _label,
        RUN,
        CHECKPOINT,
        argument("text", "default: remove the label", nargs="?", default=""),
    ),
)


def _me(output: Output, found: Any, given: Namespace) -> None:
    output.fields(found, "name groups acts_for")
    for right in found.rights:
        output.line(f"{right.workflow}: {', '.join(right.verbs)}")


WORKFLOW = argument("name", metavar="WORKFLOW")
WORKFLOWS = family(
    "workflows",
    "list workflows, show what they take, follow their runs",
    command("list", "list workflows", call("workflows", rows("name title active waiting_requests failed may_start"))),
    command(
        "show",
        "show a workflow with the schema of its input",
        call("workflow", fields("name title doc version input_schema output_schema")),
        WORKFLOW,
    ),
    command(
        "watch",
        "follow the events of all runs of a workflow live",
        watch_workflow,
        WORKFLOW,
        argument(
            "--after", "begin behind this cursor, or with the first event: start", default="now", metavar="CURSOR"
        ),
    ),
)
ME = command("me", "show who you are to the server, and what you may do", call("me", _me))


def _change(client: Client, given: Namespace, output: Output) -> None:
    changes: Any = {name: value for name, value in vars(given).items() if value is not None and value is not UNCHANGED}
    schedule_id = changes.pop("schedule_id")
    if not changes:
        raise ValueError("Say what to change: --name, --cron, --zone, --input, --missed or --overlap")
    made = client.change_schedule(client.schedule(schedule_id), **changes)
    output.result(made, f"{made.id}: {made.words}")


UNCHANGED = object()
"""The input that is not given: null is a message, too."""
SCHEDULE = argument("schedule_id", metavar="SCHEDULE")
MISSED, OVERLAP = ["skip", "once", "all"], ["allow", "skip"]
SCHEDULES = family(
    "schedules",
    "list, create and steer schedules",
    command(
        "list",
        "list schedules, the next to fire first",
        call("schedules", rows("id workflow name words state next_at last_at")),
        words("filter", "same syntax as in the dashboard"),
        argument("--workflow", "of this workflow", default=""),
    ),
    command(
        "show",
        "show a schedule",
        call(
            "schedule",
            fields(
                "id workflow name cron words zone missed overlap owner state problem next_at last_at last_run message"
            ),
        ),
        SCHEDULE,
    ),
    command(
        "create",
        "create a schedule; its runs are started on your behalf",
        call("create_schedule", says(lambda made, _: f"{made.id}: {made.words}")),
        argument("workflow"),
        argument("name"),
        argument("cron", "five fields, as in crontab: '0 9 * * 1-5'"),
        argument("--zone", "time zone such as Europe/Berlin (default: UTC)", default="UTC"),
        argument(
            "--input", "JSON; @FILE reads a file, @- standard input", dest="message", type=json_value, metavar="INPUT"
        ),
        argument("--missed", "after a time without server", choices=MISSED, default="once"),
        argument("--overlap", "while a run of it is active", choices=OVERLAP, default="allow"),
    ),
    command(
        "change",
        "change a schedule; its runs are yours from then on",
        _change,
        SCHEDULE,
        argument("--name"),
        argument("--cron", "five fields, as in crontab"),
        argument("--zone"),
        argument("--input", "JSON; @FILE, @-", dest="message", type=json_value, default=UNCHANGED, metavar="INPUT"),
        argument("--missed", choices=MISSED),
        argument("--overlap", choices=OVERLAP),
    ),
    command("pause", "pause a schedule until it is resumed", call("pause_schedule", says("Paused")), SCHEDULE),
    command(
        "resume",
        "resume a schedule with its next time",
        call("resume_schedule", says(lambda found, _: f"Resumed: next at {found.next_at}")),
        SCHEDULE,
    ),
    command("run", "start a run of a schedule now", call("run_schedule", says(lambda made, _: made.id)), SCHEDULE),
    command(
        "delete", "delete a schedule; its runs stay", call("delete_schedule", says("Deleted", deleted=True)), SCHEDULE
    ),
)


def _access(client: Client, given: Namespace, output: Output) -> None:
    page = client.access(given.workflow)
    items = list(page.items)
    while page.next:
        page = client.access(given.workflow, after=page.next)
        items += page.items
    output.rows(items, "name rights by", shown=_with_rights)


def _with_rights(one: AccessRecord) -> dict[str, Any]:
    through = {
        f"{_role(role)} through {role.group}" if role.group else _role(role)
        for roles in one.rights.values()
        for role in roles
    }
    return {"name": one.name, "rights": list(one.rights), "by": sorted(through)}


def _with_roles(one: PersonSummary | GroupRecord) -> dict[str, Any]:
    return {**one.model_dump(mode="json"), "roles": [_role(role) for role in one.roles]}


def _role(role: RoleRecord) -> str:
    return role.name if role.workflow == "*" else f"{role.name}:{role.workflow}"


PERSON = argument("name", metavar="PERSON")
PEOPLE = family(
    "people",
    "list people, their groups and what they may do",
    command(
        "list",
        "list people",
        listed("all_people", "name active roles groups last_sign_in email", narrow="words", shown=_with_roles),
        words("words", "in name, address, groups or roles"),
        argument(
            "--show",
            "deactivated ones too, or only: deactivated, away, invited, never in",
            choices=("all", "off", "away", "open", "never"),
            default="",
        ),
        limit(100),
    ),
    command(
        "show",
        "show a person",
        call(
            "person",
            fields(
                "name full_name email active roles groups last_sign_in second_factor away delegate", shown=_with_roles
            ),
        ),
        PERSON,
    ),
    command(
        "deactivate",
        "deactivate an account: no one can sign in with it, its tokens stop to work",
        call("deactivate_person", says(lambda _, given: f"{given.name} is deactivated", active=False)),
        PERSON,
    ),
    command(
        "reactivate",
        "let a deactivated account be used again",
        call("reactivate_person", says(lambda _, given: f"{given.name} is active again", active=True)),
        PERSON,
    ),
    command("groups", "list groups", call("groups", rows("name members roles", shown=_with_roles))),
    command(
        "group",
        "show a group with its members",
        call("group", fields("name members people roles", shown=_with_roles)),
        argument("name", metavar="GROUP"),
    ),
    command("access", "list who may do what in a workflow, and why", _access, argument("workflow", metavar="WORKFLOW")),
)


def _anchor_audit(client: Client, given: Namespace, output: Output) -> None:
    head = client.audit_head()
    line = {"n": head.n, "hash": head.hash, "signature": head.signature, "at": datetime.now(UTC).isoformat()}
    with Path(given.file).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    output.result({"file": given.file, **line}, f"Wrote entry {head.n} to {given.file}")


def _export_audit(client: Client, given: Namespace, output: Output) -> None:
    _export(client.export_audit(given.filter), given, output)


def _export_decisions(client: Client, given: Namespace, output: Output) -> None:
    _export(client.export_decisions(given.filter, names=given.names), given, output)


def _export(pieces: Iterable[bytes], given: Namespace, output: Output) -> None:
    if given.file == "-":
        _copy(pieces, sys.stdout.buffer, output)
        sys.stdout.flush()
        return
    target = Path(given.file)
    if target.exists():
        raise ValueError(f"{target} exists: an export never replaces a file")
    size = _write_whole(pieces, target, output)
    output.result({"file": str(target), "bytes": size}, f"Wrote {target} ({size:,} bytes)")


def _write_whole(pieces: Iterable[bytes], target: Path, output: Output) -> int:
    """Write a new file, which only its owner reads, and return its size. A part of an export never has its name."""
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            try:
                size = _copy(pieces, file, output)
                os.link(file.name, target)
            finally:
                with suppress(OSError):
                    os.unlink(file.name)
    except OSError as error:
        raise ValueError(f"{target} cannot be written: {error.strerror}") from error
    return size


def _copy(pieces: Iterable[bytes], file: BinaryIO | Any, output: Output) -> int:
    done = 0
    with output.progress("Export", None, bytes_of=True) as advance:
        for piece in pieces:
            file.write(piece)
            done += len(piece)
            advance(done)
    file.flush()
    return done


ENTRY_COLUMNS = "n at actor right verb workflow run"
TARGET = argument("file", "a new file; - for standard output", metavar="FILE")
FILTER = words("filter", "same syntax as on the page: actor:ana verb:restore after:2026-01-01")
AUDIT = family(
    "audit",
    "read and export the audit log",
    command("list", "list entries, newest first", listed("all_audit", ENTRY_COLUMNS), FILTER, limit(50)),
    command(
        "show",
        "show an entry with what the person was shown",
        call("audit_entry", fields(f"{ENTRY_COLUMNS} request facts card prev hash signature")),
        argument("n", "its number", type=int, metavar="N"),
    ),
    command(
        "head",
        "print number and hash of the newest entry: 'wfdash verify --head' takes them",
        call("audit_head", says(lambda head, _: f"{head.n}:{head.hash}")),
    ),
    command(
        "anchor",
        "append number, hash and signature of the newest entry to a file: 'wfdash verify --anchor' takes it",
        _anchor_audit,
        argument("file", "the file, a line an anchor", metavar="FILE"),
    ),
    command(
        "export",
        "export entries as one document that 'wfdash verify' checks",
        _export_audit,
        TARGET,
        FILTER,
    ),
)
DECIDED = words("filter", "same syntax as on the page: workflow:refund outcome:rejected answered:<30d")
DECISIONS = family(
    "decisions",
    "list and export what people decided",
    command(
        "list",
        "list decisions, latest first",
        listed("all_decisions", "answered workflow step outcome answered_by subject"),
        DECIDED,
        limit(50),
    ),
    command(
        "export",
        "export decisions as a data set: one JSON document a line, secrets masked",
        _export_decisions,
        TARGET,
        DECIDED,
        flag("--names", "people by name instead of by their groups"),
    ),
)


RULES = family(
    "rules",
    "list and suspend the rules that answer requests",
    command(
        "list",
        "list rules, newest first",
        call(
            "rules",
            lambda output, found, _: output.rows(found.items, "name workflow step state since answered condition"),
        ),
    ),
    command(
        "suspend",
        "suspend a rule: what it answered and can still be undone goes back to people",
        lambda client, given, output: output.result(
            client.move_rule(given.rule.removeprefix("r"), "suspended", reason=given.reason), f"Suspended {given.rule}"
        ),
        argument("rule", "its name, such as r7"),
        argument("--reason", default=""),
    ),
)


def _statistics(output: Output, found: Any, given: Namespace) -> None:
    output.line(f"now: {_counts(found.states) or 'no runs'}; {found.waiting} requests wait for people")
    flow = {name: sum(slots) for name, slots in found.flow.items()}
    output.line(f"last {given.days} days: {_counts(flow) or 'nothing happened'}")
    times = "count failed retried half_within 95_percent_within"
    _section(output, "runs", found.runs, f"workflow {times}", shown=_with_times)
    _section(output, "slowest steps", found.steps, f"workflow step {times}", shown=_with_times)


def _operations(output: Output, found: Any, given: Namespace) -> None:
    counts = {
        "failed": found.failed,
        "held": found.held_count,
        "silent": len(found.stuck),
        "overdue requests": found.overdue_count,
        "unanswerable requests": found.unanswerable_count,
        "waiting for a worker": found.backlog.count,
        "late schedules": len(found.late),
    }
    output.line(_counts(counts) or "Nothing needs attention")
    _section(output, "failures", found.groups, "workflow error count last")
    _section(output, "held runs", found.held, "id workflow title")
    _section(output, "overdue requests", found.overdue, "id workflow due by subject")
    _section(output, "requests no one can answer", found.unanswerable, "id workflow by subject")
    _section(output, "workers", found.workers, "name runs quiet_since")


def _section(output: Output, head: str, items: Any, columns: str, **shown: Any) -> None:
    if items:
        output.line(f"\n{head}")
        output.rows(items, columns, **shown)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _with_times(one: TimingRecord) -> dict[str, Any]:
    times = {"half_within": _seconds(one.spread, "p50"), "95_percent_within": _seconds(one.spread, "p95")}
    return {**one.model_dump(mode="json"), **times}


def _seconds(spread: DurationSummary, name: str) -> str:
    found = getattr(spread, name)
    return "" if found is None else f"{found:.3g} s"


STATISTICS = command(
    "statistics",
    "show how many runs there are and how long they take",
    call("statistics", in_words(_statistics)),
    argument("--days", "the last 1 to 30 days (default: 7)", type=up_to(MOST_DAYS), default=7),
    argument("--workflow", "of this workflow", default=""),
)
OPERATIONS = command(
    "operations",
    "show what needs attention in workflows you operate",
    call("operations", in_words(_operations)),
    argument("--days", "failures of the last 1 to 30 days (default: 1)", type=up_to(MOST_DAYS), default=1),
)


def serve_agent(options: Namespace) -> int:
    """Serve an agent until it closes its standard input."""
    try:
        from wfdash.client.mcp import serve_stdio
    except ImportError:
        return print_error('The door for agents is not installed: pip install "wfdash[mcp]"')
    from wfdash.client import ClientError

    if not (url := options.url or os.environ.get("WFDASH_URL", "")):
        return print_error("Name the server that people use: --url ADDRESS, or WFDASH_URL; and a token in WFDASH_TOKEN")
    try:
        serve_stdio(url, options.token)
    except ClientError as error:
        return print_error(str(error))
    return OK


MCP = plain_command(
    "mcp",
    "serve an agent over standard input and output (Model Context Protocol), as a client of a server",
    serve_agent,
    argument("--url", "address of the server (default: $WFDASH_URL)"),
    argument("--token", "API token (default, and safer: $WFDASH_TOKEN)"),
    needs_data=False,
)
COMMANDS = (MCP, CHECKPOINTS, WORKFLOWS, ME, SCHEDULES, PEOPLE, AUDIT, DECISIONS, RULES, STATISTICS, OPERATIONS)
