import subprocess
import sys
from pathlib import Path

import pytest
from plain_library import advance

from wfdash.workflow import Waiting

KILLED = """
import asyncio, os, plain_library as program

def deliver(address):
    if address.startswith("cem"):
        os._exit(9)
    program.write(address)

program.write, program.deliver = program.deliver, deliver
asyncio.run(program.advance("approve"))
"""


async def test_each_address_gets_one_mail_though_the_process_is_killed_between_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    waiting = await advance()
    assert isinstance(waiting, Waiting)
    assert waiting.request.card["subject"] == "It looks good. Send it to the other 3?"
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    assert subprocess.run([sys.executable, "-c", KILLED], timeout=240).returncode == 9
    assert (tmp_path / "outbox.txt").read_text().count("@") == 2
    assert (await advance()).result() == 3
    sent = (tmp_path / "outbox.txt").read_text().split()
    assert [address.partition("@")[0] for address in sent] == ["ana", "ben", "cem", "dora"]
