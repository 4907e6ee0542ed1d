"""The scripts of every page as one file: nothing is left out, and errors lead to the line of the file they are in."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from pathlib import Path

import pytest

from wfdash.web.pages.site.files import BASE64, bundle_of, map_of, script_sources

TWO = {
    "live/a": 'import { b as c, d } from "../site/b.js";\nimport "./e.js"; // last\nc(d);\n',
    "live/e": "// nothing\n",
    "site/b": "export const b = 1;\nexport async function d() {\n}\n",
}


def numbers(segment: str) -> list[int]:
    """Read a segment of a source map."""
    found, value, shift = [], 0, 0
    for char in segment:
        digit = BASE64.index(char)
        value |= (digit & 31) << shift
        shift += 5
        if not digit & 32:
            found.append(-(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    return found


def origins(sources: dict[str, str]) -> list[tuple[str, int] | None]:
    """Return for each line of the bundle which line of which file its source map says it is."""
    told = json.loads(map_of(sources))
    steps = [numbers(line) for line in told["mappings"].split(";")]
    files = accumulate(step[1] if step else 0 for step in steps)
    lines = accumulate(step[2] if step else 0 for step in steps)
    return [
        (told["sources"][file], line) if step else None for step, file, line in zip(steps, files, lines, strict=True)
    ]


def test_imports_and_exports_become_calls_and_properties() -> None:
    lines = bundle_of(TWO).splitlines()
    assert lines[1:6] == [
        '"live/a"(exports) {',
        'const { b: c, d } = load("site/b");',
        'load("live/e"); // last',
        "c(d);",
        "Object.assign(exports, {  }); },",
    ]
    assert "async function d() {" in lines
    assert "Object.assign(exports, { b, d }); }," in lines


@pytest.mark.parametrize(
    "line",
    [
        "export default 1;",
        "export let a = 1;",
        "export { a };",
        'import a from "./e.js";',
        'import { a } from "./missing.js";',
        'import { a } from "https://elsewhere.example/e.js";',
        'import("./e.js");',
    ],
)
def test_a_form_that_is_not_understood_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(ValueError, match=r"site/b\.js, line 2"):
        bundle_of({**TWO, "site/b": f"let a;\n{line}\n"})


def test_every_script_is_in_the_bundle_and_leads_back_to_its_file() -> None:
    sources = script_sources()
    assert {f"{name}.js" for name in sources} == {
        path.relative_to("static/js").as_posix() for path in Path("static/js").rglob("*.js")
    }
    lines = bundle_of(sources).splitlines()
    for line, origin in zip(lines, origins(sources), strict=False):
        if origin is None:
            continue
        source = sources[origin[0].removesuffix(".js")].split("\n")[origin[1]]
        assert line == source or re.match(r"import |export ", source), (line, source)
    told = [origin for origin in origins(sources) if origin is not None]
    assert len(told) == sum(len(text.removesuffix("\n").split("\n")) for text in sources.values())
