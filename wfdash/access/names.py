"""Names of people and groups: policies address both by name, so each name means one of them and nothing else."""

from __future__ import annotations

import re

from django.contrib.auth.models import Group
from django.contrib.auth.validators import UnicodeUsernameValidator

from checkpoints.limits import findable
from checkpoints.models.user_model import User, has_name
from wfdash.access.viewer import REQUESTER

GROUP = re.compile(r"\w([\w.@+ -]*[\w.@+-])?")
PERSON = re.compile(UnicodeUsernameValidator.regex)
LONGEST = 150
RESERVED = frozenset({REQUESTER})


def problem_of_group(name: str, *, now: str = "") -> str:
    """Return why a group cannot have this name, empty if it can. ``now``: what it is called now."""
    if not GROUP.fullmatch(name):
        return "Use letters, digits, spaces inside, and . @ + - _"
    if problem := _problem_of_any(name):
        return problem
    if name != now and User.objects.filter(has_name(name, "iexact")).exists():
        return "A user has this name, and requests address users and groups by name. Choose another name"
    if name.lower() != now.lower() and Group.objects.filter(name__iexact=name).exists():
        return "A group of this name exists already"
    return ""


def problem_of_person(name: str, *, now: str = "") -> str:
    """Return why a person cannot have this name, empty if they can. ``now``: what they are called now."""
    if not PERSON.fullmatch(name):
        return "Use letters, digits, and . @ + - _"
    if problem := _problem_of_any(name):
        return problem
    if name.lower() != now.lower() and User.objects.filter(has_name(name, "iexact")).exists():
        return "A user of this name exists already"
    if Group.objects.filter(name__iexact=name).exists():
        return "A group has this name, and requests address users and groups by name. Choose another name"
    return ""


def find_person(name: str) -> User | None:
    """Return the person of this name (one query), None if there is none."""
    return User.objects.filter(has_name(findable(name))).first()


def find_group(name: str) -> Group | None:
    """Return the group of this name (one query), None if there is none."""
    return Group.objects.filter(name=findable(name)).first()


def _problem_of_any(name: str) -> str:
    if len(name) > LONGEST:
        return f"At most {LONGEST} characters"
    return f"{name} is reserved in policies. Choose another name" if name.lower() in RESERVED else ""
