"""A file that says who there is: people, service accounts, groups and their roles, in TOML. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints.records import frozen

EVERY = "*"
SECTIONS: Mapping[str, Mapping[str, type]] = {
    "people": {"email": str, "active": bool, "groups": list, "roles": list},
    "service_accounts": {"about": str, "active": bool, "groups": list, "roles": list},
    "groups": {"members": list, "roles": list},
}
"""What a file may hold: section -> key -> type."""
HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?")
KINDS = {str: "a text", bool: "true or false", list: "a list of texts"}


@dataclass(frozen=True, kw_only=True, order=True)
class FileProblem:
    """What is wrong in a file, and in which line; 0 where no line can be named."""

    line: int
    words: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.words}" if self.line else self.words


class BadPeopleFile(ValueError):
    """A file that cannot be used. ``problems``: all that is wrong with it, by line."""

    def __init__(self, problems: Collection[FileProblem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))


@frozen
class Account:
    """A person or a service account as the file has it. ``email``: None where the file does not say."""

    name: str
    service: bool = False
    email: str | None = None
    about: str = ""
    active: bool = True


@frozen
class RoleLine:
    """A role that a person or a group is to have."""

    holder: str
    group: bool
    role: str
    workflow: str


@frozen
class PeopleFile:
    """All that a file says."""

    accounts: Mapping[str, Account]
    groups: Collection[str]
    members: Collection[tuple[str, str]]
    """(group, person)."""
    roles: Collection[RoleLine]
    lines: Mapping[str, int]
    """The line of each name of a section, as ``people.ana``."""

    def line(self, section: str, name: str) -> int:
        """Return the line where a name's table begins, 0 if it is not known."""
        return self.lines.get(f"{section}.{name}", 0)


def role_in(text: str) -> tuple[str, str]:
    """Return role and workflow of ``reviewer`` (of every workflow) or ``operator:expense``."""
    role, _, workflow = text.partition(":")
    return role.strip(), workflow.strip() or EVERY


def read_people(text: str, *, roles: Collection[str]) -> PeopleFile:
    """Return what a file says. ``BadPeopleFile`` names every unknown key, role or value with its line."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise BadPeopleFile([FileProblem(line=int(line[1]) if line else 0, words=f"not TOML: {error}")]) from None
    if problems := list(_problems(data, text, roles)):
        raise BadPeopleFile(problems)
    return _file(data, text)


def line_of(text: str, section: str, name: str = "", key: str = "") -> int:
    """Return the line in which a section, the table of a name, or a key of it is written; 0 if it is not found."""
    found = 0
    for number, line in enumerate(text.splitlines(), start=1):
        head = HEADER.fullmatch(line)
        if head:
            if found and key:
                return found
            parts = [part.strip().strip("\"'") for part in re.split(r"\.", head[1], maxsplit=1)]
            if parts[0] == section and name in {"", *parts[1:]}:
                found = number
        if found and not key:
            return found
        if found and _is_key(line, key):
            return number
        if not found and not name and _is_key(line, section):
            return number
    # Written within the section's own table: ``ana = { roles = [...] }``.
    return found or (line_of(text, section, key=name) if name else 0)


def _is_key(line: str, key: str) -> bool:
    return line.partition("=")[0].strip().strip("\"'") == key and "=" in line


def _problems(data: Mapping[str, Any], text: str, roles: Collection[str]) -> Iterator[FileProblem]:
    for section, entries in data.items():
        if section not in SECTIONS:
            words = f"unknown section {section}. Available: {', '.join(SECTIONS)}"
            yield FileProblem(line=line_of(text, section), words=words)
        elif not isinstance(entries, dict):
            yield FileProblem(line=line_of(text, section), words=f"{section} must be a table, as in [{section}.NAME]")
        else:
            for name, entry in entries.items():
                yield from _entry_problems(section, name, entry, text, roles)
    for name in sorted(_named(data, "people") & _named(data, "service_accounts")):
        words = f"{name} is a person already"
        yield FileProblem(line=line_of(text, "service_accounts", name), words=words)


def _entry_problems(section: str, name: str, entry: Any, text: str, roles: Collection[str]) -> Iterator[FileProblem]:
    if not isinstance(entry, dict):
        yield FileProblem(line=line_of(text, section, name), words=f"{section}.{name} must be a table")
        return
    kinds = SECTIONS[section]
    for key, value in entry.items():
        where = line_of(text, section, name, key)
        if key not in kinds:
            yield FileProblem(line=where, words=f"unknown key {key} of {name}. Available: {', '.join(kinds)}")
        elif not _fits(value, kinds[key]):
            yield FileProblem(line=where, words=f"{key} of {name} must be {KINDS[kinds[key]]}")
        elif key == "roles":
            for role in (role_in(one)[0] for one in value):
                if role not in roles:
                    words = f"unknown role {role} of {name}. Available: {', '.join(roles)}"
                    yield FileProblem(line=where, words=words)


def _fits(value: Any, kind: type) -> bool:
    if kind is list:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, kind)


def _named(data: Mapping[str, Any], section: str) -> set[str]:
    entries = data.get(section)
    return set(entries) if isinstance(entries, dict) else set()


def _file(data: Mapping[str, Any], text: str) -> PeopleFile:
    accounts = {
        name: Account(
            name=name,
            service=section == "service_accounts",
            email=entry.get("email"),
            about=entry.get("about", ""),
            active=entry.get("active", True),
        )
        for section in ("people", "service_accounts")
        for name, entry in data.get(section, {}).items()
    }
    groups = data.get("groups", {})
    listed = [(group, name) for group, entry in groups.items() for name in entry.get("members", [])]
    joined = [
        (group, name)
        for section in ("people", "service_accounts")
        for name, entry in data.get(section, {}).items()
        for group in entry.get("groups", [])
    ]
    roles = [
        RoleLine(holder=name, group=section == "groups", role=role_in(one)[0], workflow=role_in(one)[1])
        for section in SECTIONS
        for name, entry in data.get(section, {}).items()
        for one in entry.get("roles", [])
    ]
    lines = {f"{section}.{name}": line_of(text, section, name) for section in data for name in data[section]}
    return PeopleFile(
        accounts=accounts,
        groups=tuple(groups),
        members=tuple(dict.fromkeys([*listed, *joined])),
        roles=tuple(dict.fromkeys(roles)),
        lines=lines,
    )
