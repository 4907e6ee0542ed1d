"""The code of a workflow as numbered, coloured lines, and links to it from a step and from the lines of a traceback.

Lines have anchors of the workflow's steps; long files are shown in excerpts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from django.urls import reverse
from django.utils.safestring import SafeString
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from checkpoints.records import frozen
from wfdash.access.viewer import Viewer
from wfdash.domain.labels import visible
from wfdash.installation.workflow_sources import SourceFile
from wfdash.queries.workflows import code_of, frames_in
from wfdash.web.pages.ui.markup import TextCache
from wfdash.web.pages.ui.time_html import format_html
from wfdash.web.pages.ui.times import counted

MAX_WHOLE_LINES = 500
"""Lines of a file that is shown whole; of a longer one only its steps are."""
LINES_AROUND = 3
MAX_WORKFLOW_LINES = 2_000
"""Lines of one workflow."""
_coloured = TextCache(max_chars=4_000_000)


LINE = (
    '{gap}<span class="source-line" id="{anchor}">{steps}<a class="source-number" href="#{anchor}" tabindex="-1"'
    ' aria-label="Line {number}" data-number="{number}"></a>{html}\n</span>'
)


@frozen
class CodeFile:
    """A file as it is shown. ``changed``: it is another one on the disk now."""

    name: str
    path: str
    html: SafeString
    changed: bool


def anchor_of(file: int, line: int) -> str:
    """Return the anchor of a line on the workflow's page."""
    return f"L{line}" if file == 0 else f"f{file + 1}-L{line}"


def code_files(files: Iterable[SourceFile]) -> list[CodeFile]:
    """Return the files, at most ``MAX_WORKFLOW_LINES`` lines in all."""
    shown, left = [], MAX_WORKFLOW_LINES
    for index, file in enumerate(files):
        lines = _chosen(file)[:left]
        left -= len(lines)
        html = SafeString("".join(_drawn(index, file, lines)))
        shown.append(CodeFile(name=file.path.name, path=str(file.path), html=html, changed=file.has_changed()))
    return shown


def _drawn(index: int, file: SourceFile, lines: Iterable[int]) -> Iterator[str]:
    html = _coloured.get("source", file.text, lambda: _colour(visible(file.text.removesuffix("\n")))).split("\n")
    begins: dict[int, SafeString] = defaultdict(SafeString)
    for step, (first, _last) in file.steps.items():
        begins[first] += format_html('<span id="step-{}"></span>', step)
    before = 0
    for number in lines:
        yield format_html(
            LINE,
            gap=_gap(number - before - 1),
            anchor=anchor_of(index, number),
            steps=begins[number],
            number=number,
            html=SafeString(html[number - 1]),
        )
        before = number
    yield _gap(len(html) - before)


def _gap(lines: int) -> SafeString:
    words = f"⋯ {counted(lines, 'line')}\n"
    return format_html('<span class="source-gap">{}</span>', words) if lines else SafeString("")


def _chosen(file: SourceFile) -> list[int]:
    count = len(file.lines)
    if count <= MAX_WHOLE_LINES:
        return list(range(1, count + 1))
    near = {n for first, last in file.steps.values() for n in range(first - LINES_AROUND, last + LINES_AROUND + 1)}
    return sorted(n for n in near if 1 <= n <= count)


def _colour(text: str) -> str:
    lexer = get_lexer_by_name("python", stripnl=False, ensurenl=False)
    html: str = highlight(text, lexer, HtmlFormatter(nowrap=True, classprefix="hl-"))
    return html.removesuffix("\n")


def step_link(viewer: Viewer, workflow: str, step: str) -> str:
    """Return the address of a step's code, empty where it is not shown."""
    known = any(step in file.steps for file in code_of(viewer, workflow))
    return f"{reverse('wfdash:workflow', args=[workflow])}#step-{step}" if known else ""


def linked_trace(viewer: Viewer, workflow: str, trace: str) -> list[tuple[str, str]]:
    """Return a traceback in pieces, each with the address of the line of code it names, empty for none.

    A line that reads otherwise now is no link: the code has changed since.
    """
    address, parts, at = reverse("wfdash:workflow", args=[workflow]), [], 0
    for place in frames_in(trace, code_of(viewer, workflow)):
        parts += [
            (trace[at : place.start], ""),
            (trace[place.start : place.end], f"{address}#{anchor_of(place.file, place.line)}"),
        ]
        at = place.end
    return [*parts, (trace[at:], "")]
