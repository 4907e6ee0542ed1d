from __future__ import annotations

from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from checkpoints.models import Grant, Run, Schedule
from tests.examples.conftest import _allow_repositories as _allow_repositories
from wfdash.access.viewer import viewer_for
from wfdash.examples import repository
from wfdash.management.commands import demo

pytestmark = [pytest.mark.django_db, pytest.mark.frameworks]

WORKFLOWS = ["expense_batch", "patch_review", "patch_review", "publish_article"]
if find_spec("pydantic_ai"):
    WORKFLOWS.append("support_agent")


def test_people_runs_and_a_repository_are_added(tmp_path: Path):
    seeded = demo.seed(tmp_path)
    assert seeded.people == ("adam", "ana", "ben", "vera")
    assert set(Run.objects.values_list("id", flat=True)) == set(seeded.runs)
    assert sorted(Run.objects.values_list("workflow", flat=True)) == WORKFLOWS
    assert repository.open_repository(str(seeded.repository)) == tmp_path.resolve() / "demo" / "shop"


def test_seeding_again_changes_nothing(tmp_path: Path):
    demo.seed(tmp_path)
    ana = User.objects.get(username="ana")
    ana.groups.clear()
    again = demo.seed(tmp_path)
    assert (again.people, again.runs) == ((), ())
    assert Run.objects.count() == len(WORKFLOWS)
    assert Schedule.objects.get().owner.username == "adam"
    assert Grant.objects.count() == 5
    assert not ana.groups.exists()


def test_no_one_gets_a_password(tmp_path: Path):
    demo.seed(tmp_path)
    assert not any(user.has_usable_password() for user in User.objects.all())


def test_each_person_may_do_what_the_demo_shows_them_for(tmp_path: Path):
    demo.seed(tmp_path)
    adam, ana, ben, vera = (viewer_for(User.objects.get(username=name)) for name in ("adam", "ana", "ben", "vera"))
    assert adam.may("admin", "patch_review")
    assert ana.groups == {"finance"}
    assert ben.groups == {"finance", "editors"}
    assert ana.may("start", "expense_batch")
    assert not ana.may("start", "patch_review")
    assert ben.may("answer", "patch_review")
    assert vera.may("see", "patch_review")
    assert not vera.may("answer", "patch_review")


def test_the_demo_patch_applies_and_the_stale_one_does_not(tmp_path: Path):
    seeded = demo.seed(tmp_path)
    good, stale = (demo.Run.objects.get(start_key=f"adam:demo-{key}").input["diff"] for key in ("patch", "stale"))
    changes = repository.read_diff(seeded.repository, good)
    repository.check(seeded.repository, changes, good)
    with pytest.raises(repository.Refused, match=r"hunk 2 of cart\.py"):
        repository.check(seeded.repository, repository.read_diff(seeded.repository, stale), stale)


def test_the_command_says_what_it_added(settings: pytest.FixtureRequest, tmp_path: Path):
    settings.WFDASH_DATA_DIR = tmp_path
    out = StringIO()
    call_command("demo", stdout=out)
    assert out.getvalue().splitlines()[:2] == ["People added: adam, ana, ben, vera", f"Runs started: {len(WORKFLOWS)}"]
    out = StringIO()
    call_command("demo", stdout=out)
    assert out.getvalue().splitlines()[:2] == ["People added: none", "Runs started: 0"]
