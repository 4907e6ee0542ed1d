"""``manage.py demo``: add demo people, a demo repository and demo runs. Safe to run again."""

from __future__ import annotations

import shutil
from dataclasses import field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.management.base import BaseCommand

from checkpoints.models import Grant, Run, Schedule
from checkpoints.models.user_model import User, has_name
from checkpoints.records import Json, frozen
from wfdash.access.viewer import EVERY, viewer_for
from wfdash.actions.runs.lifecycle import start_run
from wfdash.actions.schedules import SchedulePlan, create_schedule
from wfdash.engines import catalog
from wfdash.examples.repository import DATA, make_shop


class Command(BaseCommand):
    """Seed the demo."""

    help = "Add demo people, a demo git repository and demo runs. Existing ones are kept."

    def handle(self, *args: Any, **options: Any) -> None:
        """Seed, and say what was added."""
        added = seed(settings.WFDASH_DATA_DIR)
        if options["verbosity"] > 0:
            self.stdout.write(f"People added: {', '.join(added.people) or 'none'}")
            self.stdout.write(f"Runs started: {len(added.runs)}")
            self.stdout.write(f"Demo repository: {added.repository}")


# Demo people, a demo repository and demo runs. Running it again adds what is missing and changes nothing.


@frozen
class Person:
    """A person of the demo. ``roles``: workflow (or ``*``) -> role."""

    name: str
    full_name: str
    groups: tuple[str, ...] = ()
    roles: dict[str, str] = field(default_factory=dict)
    superuser: bool = False


PEOPLE = (
    Person(name="adam", full_name="Adam Okafor", superuser=True),
    Person(
        name="ana",
        full_name="Ana Ferreira",
        groups=("finance",),
        roles={EVERY: "reviewer", "expense_batch": "operator"},
    ),
    Person(
        name="ben",
        full_name="Ben Lindqvist",
        groups=("finance", "editors"),
        roles={EVERY: "reviewer", "publish_article": "operator"},
    ),
    Person(name="vera", full_name="Vera Novak", roles={EVERY: "viewer"}),
)


@frozen
class Seeded:
    """What was added: names of people, ids of runs, and the path of the demo repository."""

    people: tuple[str, ...]
    runs: tuple[str, ...]
    repository: Path


def seed(data: Path) -> Seeded:
    """Add the demo's people, its git repository in ``data`` and its runs, each only if missing, and return what was
    added.
    """
    people = tuple(person.name for person in PEOPLE if _add_person(person))
    repository = data / "demo" / "shop"
    if shutil.which("git") and not repository.exists():
        make_shop(repository)
    wanted = [one for one in _runs(repository) if repository.exists() or one[1] != "patch_review"]
    runs = [_start(key, workflow, message) for key, workflow, message in wanted]
    if runs[0]:
        # Schedule the review of a month's expenses for the first of the next.
        plan = SchedulePlan(name="Month end", cron="0 7 1 * *", zone="Europe/Rome", message={}, overlap="skip")
        if not Schedule.objects.filter(workflow="expense_batch", name=plan.name).exists():
            create_schedule(viewer_for(User.objects.get(has_name("adam"))), "expense_batch", plan)
    return Seeded(people=people, runs=tuple(run for run in runs if run), repository=repository)


def _add_person(person: Person) -> bool:
    """Create a person with groups and roles and return True; an existing one is not changed."""
    if User.objects.filter(has_name(person.name)).exists():
        return False
    first, last = person.full_name.split(" ", 1)
    create = User.objects.create_superuser if person.superuser else User.objects.create_user
    user = create(person.name, password=None, first_name=first, last_name=last)
    user.groups.set([Group.objects.get_or_create(name=name)[0] for name in person.groups])
    for workflow, role in person.roles.items():
        Grant.objects.create(user=user, workflow=workflow, role=role)
    return True


def _runs(repository: Path) -> list[tuple[str, str, Json]]:
    """Return key, workflow and message of every demo run."""
    patch = (DATA / "decimal.diff").read_text()
    stale = patch.replace("self.lines)", "self.rows)")
    return [
        ("expenses", "expense_batch", {}),
        ("article", "publish_article", {}),
        ("support", "support_agent", {}),
        ("stale", "patch_review", {"repository": str(repository), "diff": stale}),
        ("patch", "patch_review", {"repository": str(repository), "diff": patch}),
    ]


def _start(key: str, workflow: str, message: Json) -> str | None:
    """Start a run as adam and return its id; None if the demo started it before, or its workflow is not loaded."""
    served = any(entry.name == workflow for entry in catalog.entries())
    if not served or Run.objects.filter(start_key=f"adam:demo-{key}").exists():
        return None
    adam = viewer_for(User.objects.get(has_name("adam")))
    return start_run(adam, workflow, message, key=f"demo-{key}").id
