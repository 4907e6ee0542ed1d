import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("plain_library.py")
KILLED = """
import os, runpy, sys
from pathlib import Path

def trace(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "deliver" and Path("outbox.txt").read_text().count("@") == 2:
        os._exit(9)

import threading
threading.settrace(trace)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(folder: Path, *arguments: str, killed: bool = False) -> tuple[int, str]:
    """Run the program in a folder; ``killed``: its process dies before the third delivery."""
    command = [sys.executable, *(["-c", KILLED] if killed else []), str(PROGRAM), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout.strip() or done.stderr


def test_each_address_gets_one_mail_though_the_process_is_killed_between_two(tmp_path: Path) -> None:
    assert run(tmp_path) == (0, "It looks good. Send it to the other 3?")
    assert run(tmp_path, "approve", killed=True)[0] == 9
    assert run(tmp_path) == (0, "Done: 3 more")
    assert (tmp_path / "outbox.txt").read_text().split() == [
        f"{name}@example.org" for name in ("ana", "ben", "cem", "dora")
    ]
