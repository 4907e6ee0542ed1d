"""All scripts of the pages as one file: a browser asks once, and has them for every page.

In the source each script is a small ES module, served at an address of its own as well. Here each becomes a function
that runs when a page names it (``data-scripts``) or another one imports it, once. Lines keep their number within a
module, so that the source map leads from an error to the file it is in.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping

MAP = "site.js.map"
IMPORT = re.compile(r'import (?:(?P<names>\{[^}]*\}) from )?"(?P<path>\.{1,2}/[^"]+)\.js";(?P<rest> *(?://.*)?)')
EXPORT = re.compile(r"export (?P<code>(?:async function|function|class|const) (?P<name>\w+).*)")
START = """const loaded = {};
function load(name) {
  if (!loaded[name]) modules[name]((loaded[name] = {}));
  return loaded[name];
}
for (const name of document.querySelector("script[data-scripts]").dataset.scripts.match(/\\S+/g) ?? []) {
  try { load(name); } catch (error) { reportError(error); }
}
"""
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def bundle_of(sources: Mapping[str, str]) -> str:
    """Return one script that holds these modules, from their names (``site/time``) to their text.

    ``ValueError`` names the line that is more than the few forms of import and export that are understood here.
    """
    modules = [module_of(name, text, sources) for name, text in sources.items()]
    return "\n".join(["const modules = {", *modules, "};", START, f"//# sourceMappingURL={MAP}", ""])


def module_of(name: str, text: str, known: Mapping[str, str]) -> str:
    """Return a module as a property: its name, and the function that runs it, with one line for each of its lines."""
    exported: list[str] = []
    lines = [_line(name, number, line, known, exported) for number, line in enumerate(_lines(text), 1)]
    return "\n".join([f'"{name}"(exports) {{', *lines, f"Object.assign(exports, {{ {', '.join(exported)} }}); }},"])


def map_of(sources: Mapping[str, str]) -> str:
    """Return the source map of the bundle: from each line of a module to that line of its file."""
    mappings, line_before, source_before = [""], 0, 0  # the first line of the bundle is its own
    for source, text in enumerate(sources.values()):
        count = len(_lines(text))
        first = [0, source - source_before, -line_before, 0]
        mappings += ["", _digits(first), *[_digits([0, 0, 1, 0])] * (count - 1), ""]
        line_before, source_before = count - 1, source
    found = {"version": 3, "file": "site.js", "sources": [f"{name}.js" for name in sources], "names": []}
    return json.dumps({**found, "mappings": ";".join(mappings)})


def _line(name: str, number: int, line: str, known: Mapping[str, str], exported: list[str]) -> str:
    if (found := IMPORT.fullmatch(line)) and (path := _path(name, found["path"])) in known:
        names = (found["names"] or "").replace(" as ", ": ")
        return f'{"const " + names + " = " if names else ""}load("{path}");{found["rest"]}'
    if found := EXPORT.fullmatch(line):
        exported.append(found["name"])
        return found["code"]
    if re.match(r"(import|export)\b", line):
        raise ValueError(f"{name}.js, line {number}: {line!r} is not a form that the bundle of scripts understands")
    return line


def _path(name: str, relative: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), relative))


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _digits(numbers: list[int]) -> str:
    """Return numbers in base 64 as source maps have them: five bits each, the sign first, the last without a mark."""
    written = ""
    for number in numbers:
        left = (abs(number) << 1) | (number < 0)
        while True:
            digit, left = left & 31, left >> 5
            written += BASE64[digit | (32 if left else 0)]
            if not left:
                break
    return written
