"""The snippets of the pages for those who come from another system."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs/coming-from").glob("*.md"))


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "index"], ids=lambda page: page.stem)
async def test_the_snippets_run_to_their_end(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    block = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    assert block
    module = types.ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)
    code = compile(block, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if inspect.isawaitable(done := eval(code, vars(module))):
        await done
