"""The code of a workflow, for those who operate it: they see tracebacks, too, which quote it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from wfdash import catalog
from wfdash.access.viewer import Viewer
from wfdash.engines.published import ShowsCode
from wfdash.errors import NotAllowed
from wfdash.installation.workflow_sources import SourceFile
from wfdash.queries.workflows.catalogue import read_workflow as find_workflow

FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d{1,7}), in .*$', re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class CodePlace:
    """A line of a workflow's code. ``start``, ``end``: where the text that names it stands in its traceback."""

    file: int
    line: int
    start: int = 0
    end: int = 0


def code_of(viewer: Viewer, workflow: str) -> tuple[SourceFile, ...]:
    """Return the files with a workflow's steps, as they were loaded; none for people without the right ``code``.

    Of a workflow that only workers have loaded one of them is asked, once a minute.
    """
    entry = _shown(viewer, workflow)
    if entry is None:
        return ()
    return entry.engine.source_files() if isinstance(entry.engine, ShowsCode) else entry.code


def is_code_elsewhere(viewer: Viewer, workflow: str) -> bool:
    """Return whether a person may read a workflow's code and only workers have it."""
    entry = _shown(viewer, workflow)
    return entry is not None and isinstance(entry.engine, ShowsCode)


def _shown(viewer: Viewer, workflow: str) -> catalog.Entry | None:
    shown = settings.WFDASH_SHOW_CODE and viewer.may("code", workflow)
    return catalog.find(workflow) if shown else None


def read_code(viewer: Viewer, workflow: str) -> tuple[SourceFile, ...]:
    """Return the same files, none where the installation shows no code. ``NotFound``; ``NotAllowed`` without the right
    ``code``.
    """
    name = find_workflow(viewer, workflow).name
    if not viewer.may("code", name):
        raise NotAllowed("Your role cannot read the code of this workflow. Ask one of its admins")
    return code_of(viewer, name)


def frames_in(trace: str, files: Sequence[SourceFile]) -> tuple[CodePlace, ...]:
    """Return the lines of a traceback that are in these files, and still say what the traceback quotes."""
    index = {str(file.path): number for number, file in enumerate(files)}
    found = []
    for frame in FRAME.finditer(trace):
        number, line = index.get(frame["file"], -1), int(frame["line"])
        quoted = trace[frame.end() + 1 :].partition("\n")[0].strip()
        if number >= 0 and _line(files[number], line) == quoted:
            found.append(CodePlace(file=number, line=line, start=frame.start() + 2, end=frame.end()))
    return tuple(found)


def _line(file: SourceFile, line: int) -> str | None:
    lines = file.lines
    return lines[line - 1].strip() if 0 < line <= len(lines) else None
