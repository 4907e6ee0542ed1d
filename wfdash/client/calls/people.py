"""Calls about people, groups and roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from wfdash.client.calls.paging import pages
from wfdash.client.script import Script
from wfdash.client.sending import delete, get, part, post, put
from wfdash.records.base import Created
from wfdash.records.people import AccessPage, GroupDetail, GroupPage, GroupRecord, PersonPage, PersonSummary

Shown = Literal["", "all", "off", "away", "open", "never"]


def people(words: str = "", *, show: Shown = "", after: str = "") -> Script[PersonPage]:
    """Return a page of people with all these words in name, address, groups or roles. For admins.

    ``show``: active ones, ``all``, only deactivated (``off``), absent (``away``), with an unused invitation
    (``open``), or who ``never`` signed in.
    """
    return PersonPage.model_validate((yield from get("/people", q=words, show=show, after=after)))


def all_people(words: str = "", *, show: Shown = "", most: int | None = None) -> Script[None]:
    """Emit the people that ``people`` finds, page by page."""
    yield from pages("/people", PersonSummary.model_validate, {"q": words, "show": show}, most=most, limit=None)


def person(name: str) -> Script[PersonSummary]:
    """Return a person. For admins, and yourself."""
    return PersonSummary.model_validate((yield from get(f"/people/{part(name)}")))


def deactivate_person(name: str) -> Script[None]:
    """Deactivate an account: it is signed out everywhere, and its tokens stop to work."""
    yield from post(f"/people/{part(name)}/deactivate")


def reactivate_person(name: str) -> Script[None]:
    """Let a deactivated account be used again, with its roles and groups."""
    yield from post(f"/people/{part(name)}/reactivate")


def end_sessions(name: str) -> Script[None]:
    """Sign another person out everywhere, and end their unused sign-in links."""
    yield from post(f"/people/{part(name)}/end-sessions")


def groups() -> Script[list[GroupRecord]]:
    """Return all groups by name."""
    return list(GroupPage.model_validate((yield from get("/groups"))).items)


def group(name: str) -> Script[GroupDetail]:
    """Return a group with its members."""
    return GroupDetail.model_validate((yield from get(f"/groups/{part(name)}")))


def make_group(name: str, members: Sequence[str] = ()) -> Script[GroupDetail]:
    """Make a group with these active people."""
    return GroupDetail.model_validate((yield from post("/groups", {"name": name, "members": list(members)})))


def rename_group(name: str, to: str) -> Script[GroupDetail]:
    """Rename a group. ``Conflict`` if policies name it."""
    return GroupDetail.model_validate((yield from put(f"/groups/{part(name)}", {"name": to})))


def delete_group(name: str) -> Script[None]:
    """Delete a group with its roles. ``Conflict`` if policies name it, or if no admin would be left."""
    yield from delete(f"/groups/{part(name)}")


def add_member(group: str, person: str) -> Script[None]:
    """Add an active person to a group."""
    yield from put(f"/groups/{part(group)}/members/{part(person)}")


def remove_member(group: str, person: str) -> Script[None]:
    """Remove a member of a group. ``Conflict`` if no admin would be left."""
    yield from delete(f"/groups/{part(group)}/members/{part(person)}")


def access(workflow: str, *, after: str = "") -> Script[AccessPage]:
    """Return a page of who may do what in a workflow and why, and who may answer its questions. For its admins."""
    return AccessPage.model_validate((yield from get(f"/access/{part(workflow)}", after=after)))


def grant_role(role: str, *, person: str = "", group: str = "", workflow: str = "*") -> Script[Created]:
    """Give a role to a person or to a group, for one workflow or for every one. Returns the grant's id."""
    body = {"role": role, "workflow": workflow, "person": person, "group": group}
    return Created.model_validate((yield from post("/grants", body)))


def revoke_role(grant_id: str | int) -> Script[None]:
    """Take a grant away: ``grant`` of a person's role names it."""
    yield from delete(f"/grants/{part(grant_id)}")
