from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests import people
from wfdash.engines import catalog
from wfdash.queries.workflows import code_of, frames_in
from wfdash.web.pages.ui.source_lines import MAX_WHOLE_LINES, MAX_WORKFLOW_LINES, code_files

SOURCE = """from __future__ import annotations
from helpers_of_code import check
from wfdash.workflow import Workflow

KEY = "<script>alert(1)</script>"
wf = Workflow("coded")


@wf.step(
    start=True,
)
async def begin(n: int) -> int:
    raise ValueError("bad")


wf.step(after=begin)(check)
"""
HELPER = """def check(n: int) -> int:
    return n
"""
ADDRESS = "/workflows/coded/"


@pytest.fixture
def folder(settings, tmp_path) -> Path:
    helper = f"helper_{uuid4().hex}"  # what is imported stays imported
    (tmp_path / "coded.py").write_text(SOURCE.replace("helpers_of_code", helper))
    (tmp_path / f"{helper}.py").write_text(HELPER)
    settings.WFDASH_ENGINES = ["wfdash.engines.native.NativeEngine"]
    settings.WFDASH_WORKFLOWS = [str(tmp_path / "coded.py")]
    catalog.load.cache_clear()
    assert catalog.load().failures == []
    return tmp_path


def test_operators_see_the_code_with_an_anchor_for_each_step(folder, as_):
    page = as_("otto").get(ADDRESS).content.decode()
    assert page.index('id="L9"') < page.index('id="step-begin"') < page.index('id="L10"')
    assert page.index('id="f2-L1"') < page.index('id="step-check"')
    assert "<script>alert" not in page
    assert 'href="#step-begin"' in page  # of the graph


@pytest.mark.parametrize("name", ["ana", "vera"])
def test_the_code_is_for_those_who_see_tracebacks(name, folder, as_):
    page = as_(name).get(ADDRESS).content.decode()
    assert "Coded" in page or "coded" in page
    assert "KEY" not in page
    assert code_of(people.viewer(name), "coded") == ()


def test_an_installation_can_show_its_code_to_no_one(folder, settings, as_):
    settings.WFDASH_SHOW_CODE = False
    assert "source-line" not in as_("otto").get(ADDRESS).content.decode()


def test_what_runs_is_shown_and_that_the_file_has_changed(folder, as_):
    (folder / "coded.py").write_text((folder / "coded.py").read_text().replace('"bad"', '"worse"'))
    page = as_("otto").get(ADDRESS).content.decode()
    assert "coded.py has changed on the disk" in page
    assert "worse" not in page
    (folder / "coded.py").unlink()
    assert "coded.py has changed on the disk" in as_("otto").get(ADDRESS).content.decode()


def test_a_traceback_leads_to_its_line_while_that_reads_the_same(folder, everybody):
    files = code_of(people.viewer("otto"), "coded")
    path = folder / "coded.py"
    trace = f'Traceback (most recent call last):\n  File "{path}", line 13, in begin\n    raise ValueError("bad")\n'
    (found,) = frames_in(trace, files)
    assert (found.file, found.line) == (0, 13)
    assert trace[found.start : found.end] == f'File "{path}", line 13, in begin'
    assert frames_in(trace.replace('"bad"', '"other"'), files) == ()
    assert frames_in(trace.replace("13", "9999999"), files) == ()
    assert frames_in(trace.replace("coded.py", "elsewhere.py"), files) == ()


def test_a_run_s_traceback_and_step_lead_to_the_code(folder, as_):
    trace = (
        f'Traceback:\n  File "{folder / "coded.py"}", line 13, in begin\n    raise ValueError("bad")\nValueError: bad'
    )
    error = {"type": "ValueError", "message": "bad", "step": "begin", "traceback": trace}
    run = people.make_run(workflow="coded", phase="failed", error=error)
    assert f'<a href="{ADDRESS}#L13">File' in as_("otto").get(f"/runs/{run.pk}/").content.decode()
    assert f"{ADDRESS}#L13" not in as_("vera").get(f"/runs/{run.pk}/").content.decode()
    people.happen(run, *people.step("begin", "started"))
    assert f'href="{ADDRESS}#step-begin"' in as_("otto").get(f"/runs/{run.pk}/?step=begin").content.decode()


def test_of_a_long_file_the_steps_are_shown(folder, as_):
    filler = "\n".join(f"# {n}" for n in range(MAX_WHOLE_LINES))
    (folder / "coded.py").write_text((folder / "coded.py").read_text().replace("KEY =", f"{filler}\nKEY ="))
    catalog.reload()
    (shown, _helper) = code_files(code_of(people.viewer("otto"), "coded"))
    assert 'id="step-begin"' in shown.html
    assert f"⋯ {MAX_WHOLE_LINES + 5} lines" in shown.html
    assert shown.html.count("source-line") < 20 < MAX_WORKFLOW_LINES
