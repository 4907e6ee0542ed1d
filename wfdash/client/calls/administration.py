"""Calls about workflows, schedules, statistics, the audit log, people, groups and roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from typing_extensions import Unpack

from wfdash.client.script import Script
from wfdash.client.sending import Source, follow, get, if_unchanged, pages, part, pieces, post, put, tell
from wfdash.records.account import Me
from wfdash.records.audit import AuditDetail, AuditPage, AuditRecord, SignedHeadRecord
from wfdash.records.base import Created
from wfdash.records.people import AccessPage, GroupDetail, GroupPage, GroupRecord, PersonPage, PersonSummary
from wfdash.records.runs import WorkflowEvent
from wfdash.records.schedules import ChangeSchedule, ScheduleDetail, SchedulePage, ScheduleSummary
from wfdash.records.statistics import OperationsRecord, StatisticsRecord
from wfdash.records.workflows import (
    CheckedMessage,
    SourceFilePage,
    SourceFileRecord,
    WorkflowDetail,
    WorkflowPage,
    WorkflowSummary,
)


def workflows(filter: str = "") -> Script[list[WorkflowSummary]]:  # noqa: A002
    """Return the workflows that are loaded, and those of which only runs are left."""
    return list((yield from get("/workflows", WorkflowPage, q=filter)).items)


def workflow(name: str) -> Script[WorkflowDetail]:
    """Return a workflow with its steps and edges, and the schemas of what it takes and gives."""
    return get(f"/workflows/{part(name)}", WorkflowDetail)


def workflow_events(name: str, *, after: str = "", most: int | None = None) -> Script[None]:
    """Emit the events of all runs of a workflow that have happened, in one order; ``after``: behind this cursor."""
    path = f"/workflows/{part(name)}/events"
    return pages(path, WorkflowEvent, {"after": after}, most=most, limit=500)


def watch_workflow(name: str, *, after: str = "", patience: float | None = None) -> Script[None]:
    """Emit the events of all runs of a workflow as they happen, each once and in one order. It does not end.

    Begins with the first that is stored, with ``after`` behind the ``cursor`` of an event, or with what follows
    (``now``). Survives restarts of the server.
    """
    source = Source(path=f"/workflows/{part(name)}/events", record=WorkflowEvent)
    return follow(source, after, patience=patience)


def code(name: str) -> Script[list[SourceFileRecord]]:
    """Return the Python files with a workflow's steps, as they were loaded."""
    return list((yield from get(f"/workflows/{part(name)}/code", SourceFilePage)).items)


def check(workflow: str, message: Any = None) -> Script[Any]:
    """Check a message as a start would, and start nothing. Returns it as a run would receive it."""
    return (yield from post("/runs/check", CheckedMessage, {"workflow": workflow, "message": message})).message


def me() -> Script[Me]:
    """Return who is asking, and what they may do."""
    return get("/me", Me)


# Calls about schedules.


class ScheduleChanges(TypedDict, total=False):
    """What can be changed of a schedule. ``missed``: skip, once or all; ``overlap``: allow or skip."""

    name: str
    cron: str
    zone: str
    message: Any
    missed: str
    overlap: str


def schedules(filter: str = "", *, workflow: str = "") -> Script[list[ScheduleSummary]]:  # noqa: A002
    """Return all schedules that a filter finds, the next to fire first."""
    found, after = list[ScheduleSummary](), ""
    while True:
        page = yield from get("/schedules", SchedulePage, q=filter, workflow=workflow, after=after)
        found += page.items
        if not page.next:
            return found
        after = page.next


def schedule(schedule_id: str) -> Script[ScheduleDetail]:
    """Return a schedule."""
    return get(f"/schedules/{part(schedule_id)}", ScheduleDetail)


def create_schedule(
    workflow: str,
    name: str,
    cron: str,
    *,
    zone: str = "UTC",
    message: Any = None,
    missed: str = "once",
    overlap: str = "allow",
) -> Script[ScheduleDetail]:
    """Create a schedule; its runs are started on behalf of the caller."""
    plan = {"name": name, "cron": cron, "zone": zone, "message": message, "missed": missed, "overlap": overlap}
    return post("/schedules", ScheduleDetail, {"workflow": workflow, **plan})


def change_schedule(schedule: ScheduleDetail, **changes: Unpack[ScheduleChanges]) -> Script[ScheduleDetail]:
    """Change a schedule as it was read; its runs are started on behalf of the caller from then on.

    ``Outdated`` if someone else has changed it since: read it again. Secrets of its message are not read: give the
    whole ``message`` where it has some.
    """
    path, settings = f"/schedules/{part(schedule.id)}", schedule.model_dump(include=set(ChangeSchedule.model_fields))

    def as_read(found: Any) -> bool:
        return ScheduleDetail.model_validate(found).model_dump(include=set(settings)) == settings

    headers = yield from if_unchanged(path, as_read)
    return (yield from put(path, ScheduleDetail, {**settings, **changes}, headers=headers))


def pause_schedule(schedule_id: str) -> Script[ScheduleDetail]:
    """Pause a schedule until it is resumed."""
    return post(f"/schedules/{part(schedule_id)}/pause", ScheduleDetail)


def resume_schedule(schedule_id: str) -> Script[ScheduleDetail]:
    """Resume a schedule with its next time."""
    return post(f"/schedules/{part(schedule_id)}/resume", ScheduleDetail)


def run_schedule(schedule_id: str) -> Script[Created]:
    """Start a run of a schedule now and return its id."""
    return post(f"/schedules/{part(schedule_id)}/run", Created)


def delete_schedule(schedule_id: str) -> Script[None]:
    """Delete a schedule. Its runs stay."""
    return tell("DELETE", f"/schedules/{part(schedule_id)}")


def statistics(*, days: int = 7, workflow: str = "") -> Script[StatisticsRecord]:
    """Return counts, durations and decisions of the last 1 to 30 days, and current counts."""
    return get("/statistics", StatisticsRecord, days=days, workflow=workflow)


def operations(*, days: int = 1) -> Script[OperationsRecord]:
    """Return what needs attention in the workflows one operates: failures of the last 1 to 30 days, runs that are held
    or silent, overdue requests, workers.
    """
    return get("/operations", OperationsRecord, days=days)


# Calls about the audit log.


def audit(filter: str = "", *, limit: int = 50, after: str = "") -> Script[AuditPage]:  # noqa: A002
    """Return a page of the audit log, newest first. ``filter``: as on the page, ``actor:ana verb:restore``."""
    return get("/audit", AuditPage, q=filter, limit=limit, after=after)


def all_audit(filter: str = "", *, most: int | None = None) -> Script[None]:  # noqa: A002
    """Emit the audit entries that a filter finds, newest first, page by page."""
    return pages("/audit", AuditRecord, {"q": filter}, most=most)


def audit_entry(n: int) -> Script[AuditDetail]:
    """Return an audit entry with the card that the person was shown."""
    return get(f"/audit/{n}", AuditDetail)


def audit_of_run(run_id: str) -> Script[None]:
    """Emit every audit entry about a run, oldest first. They stay when the run is deleted."""
    return pages(f"/runs/{part(run_id)}/audit", AuditRecord, {})


def audit_head() -> Script[SignedHeadRecord]:
    """Return number and hash of the newest audit entry, to be kept elsewhere. For admins of every workflow."""
    return get("/audit/head", SignedHeadRecord)


def export_audit(filter: str = "") -> Script[None]:  # noqa: A002
    """Emit the bytes of an export: one JSON document with what a filter finds, which ``wfdash verify`` checks.

    The export is an entry of the audit log, too. ``Unreachable`` if the connection breaks: what has come is then only
    a part.
    """
    return pieces("/audit/export", q=filter)


# Calls about people, groups and roles.

Shown = Literal["", "all", "off", "away", "open", "never"]


def people(words: str = "", *, show: Shown = "", after: str = "") -> Script[PersonPage]:
    """Return a page of people with all these words in name, address, groups or roles. For admins.

    ``show``: active ones, ``all``, only deactivated (``off``), absent (``away``), with an unused invitation
    (``open``), or who ``never`` signed in.
    """
    return get("/people", PersonPage, q=words, show=show, after=after)


def all_people(words: str = "", *, show: Shown = "", most: int | None = None) -> Script[None]:
    """Emit the people that ``people`` finds, page by page."""
    return pages("/people", PersonSummary, {"q": words, "show": show}, most=most, limit=None)


def person(name: str) -> Script[PersonSummary]:
    """Return a person. For admins, and yourself."""
    return get(f"/people/{part(name)}", PersonSummary)


def deactivate_person(name: str) -> Script[None]:
    """Deactivate an account: it is signed out everywhere, and its tokens stop to work."""
    return tell("POST", f"/people/{part(name)}/deactivate")


def reactivate_person(name: str) -> Script[None]:
    """Let a deactivated account be used again, with its roles and groups."""
    return tell("POST", f"/people/{part(name)}/reactivate")


def end_sessions(name: str) -> Script[None]:
    """Sign another person out everywhere, and end their unused sign-in links."""
    return tell("POST", f"/people/{part(name)}/end-sessions")


def groups() -> Script[list[GroupRecord]]:
    """Return all groups by name."""
    return list((yield from get("/groups", GroupPage)).items)


def group(name: str) -> Script[GroupDetail]:
    """Return a group with its members."""
    return get(f"/groups/{part(name)}", GroupDetail)


def make_group(name: str, members: Sequence[str] = ()) -> Script[GroupDetail]:
    """Make a group with these active people."""
    return post("/groups", GroupDetail, {"name": name, "members": list(members)})


def rename_group(name: str, to: str) -> Script[GroupDetail]:
    """Rename a group. ``Conflict`` if policies name it."""
    return put(f"/groups/{part(name)}", GroupDetail, {"name": to})


def delete_group(name: str) -> Script[None]:
    """Delete a group with its roles. ``Conflict`` if policies name it, or if no admin would be left."""
    return tell("DELETE", f"/groups/{part(name)}")


def add_member(group: str, person: str) -> Script[None]:
    """Add an active person to a group."""
    return tell("PUT", f"/groups/{part(group)}/members/{part(person)}")


def remove_member(group: str, person: str) -> Script[None]:
    """Remove a member of a group. ``Conflict`` if no admin would be left."""
    return tell("DELETE", f"/groups/{part(group)}/members/{part(person)}")


def access(workflow: str, *, after: str = "") -> Script[AccessPage]:
    """Return a page of who may do what in a workflow and why, and who may answer its questions. For its admins."""
    return get(f"/access/{part(workflow)}", AccessPage, after=after)


def grant_role(role: str, *, person: str = "", group: str = "", workflow: str = "*") -> Script[Created]:
    """Give a role to a person or to a group, for one workflow or for every one. Returns the grant's id."""
    body = {"role": role, "workflow": workflow, "person": person, "group": group}
    return post("/grants", Created, body)


def revoke_role(grant_id: str | int) -> Script[None]:
    """Take a grant away: ``grant`` of a person's role names it."""
    return tell("DELETE", f"/grants/{part(grant_id)}")
