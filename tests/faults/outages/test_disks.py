"""The disk is full, or no one may write to it: it is said, nothing is half-written, runs go on once it is mended."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.faults.checks import Promised, look
from tests.faults.outages.disks import SQLITE_MB, Limit, fill_and_free, small_disk, why_no_disk
from tests.faults.outages.outages import check_whole
from tests.faults.worlds import World

pytestmark = pytest.mark.process
NOTHING = Promised(starts={}, answers={})


def test_a_full_disk_is_said_and_runs_go_on_once_there_is_room(tmp_path: Path, sqlite_template: Path) -> None:
    """A real small disk where one can be mounted; else the kernel refuses to let files grow (``RLIMIT_FSIZE``)."""
    with small_disk(tmp_path / "data", SQLITE_MB) if why_no_disk() is None else nullcontext() as disk:
        world = World(tmp_path, template=sqlite_template)
        findings, refusals = fill_and_free(world, disk or Limit(world), whole=check_whole)
    assert findings.problems() == {}
    assert refusals
    assert all(": 503" in refusal for refusal in refusals)


def test_a_server_on_a_read_only_disk_says_so_and_works_once_it_is_writable(
    tmp_path: Path, sqlite_template: Path
) -> None:
    if reason := why_no_disk():
        pytest.skip(reason)
    with small_disk(tmp_path / "data", SQLITE_MB) as disk:
        world = World(tmp_path, template=sqlite_template)
        run = world.play("start", workflow="chain", number=1, ledger=str(world.ledger))
        disk.set_read_only(True)
        server = world.server()
        server.launch()
        assert server.wait() == 1
        assert "The database cannot be used" in server.log()
        assert "Traceback" not in server.log()
        disk.set_read_only(False)
        assert world.play("live_through", runs=[run], ledger=str(world.ledger)) == ["completed"]


def test_a_read_only_sqlite_refuses_visibly_and_runs_go_on_once_it_writes_again(world: World) -> None:
    runs = world.play("start_many", workflow="march", numbers=[40, 40], ledger=str(world.ledger))
    told = world.play(
        "outages.refusing.drive_while_read_only", runs=runs, ledger=str(world.ledger), flag=str(world.data / "flag")
    )
    assert told["after"] == told["before"]
    assert told["refused"] == [503, "attempt to write a readonly database"]
    assert told["phases"] == ["completed"]
    assert look(world.tables(), world.ledger, NOTHING).problems() == {}
