from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "checkpointing.md"


async def test_the_page_about_checkpointing_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL), 1):
        code = compile(block, f"{PAGE.name} block {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.isawaitable(done := eval(code, names)):
            await done
    await names["storage"].aclose()
