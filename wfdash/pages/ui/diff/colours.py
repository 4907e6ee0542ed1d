"""Colours in the lines of a patch, by the name of the file: as far as code blocks have them. Pure and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wfdash.pages.ui.diff.lines import DiffLine, TextRun
from wfdash.pages.ui.markup import MAX_COLOURED, tokens_of

MAX_IN_ALL = 48_000
"""Characters coloured in one patch, both sides counted: some 600 lines of code."""
ENDINGS = {"pyi": "python", "mjs": "javascript", "jsx": "javascript", "tsx": "javascript", "htm": "html", "svg": "xml"}

Token = tuple[str, str]


class Colours:
    """Colours the lines of one patch while its budget lasts."""

    def __init__(self) -> None:
        self.left = MAX_IN_ALL

    def of(self, lines: Sequence[DiffLine], path: str) -> tuple[DiffLine, ...]:
        """Return the lines of a hunk, each with the colours of the side that it is on."""
        ending = path.rpartition(".")[2].lower()
        language = ENDINGS.get(ending, ending)
        found: dict[int, DiffLine] = {}
        for kinds in ({"same", "removed"}, {"same", "added"}):
            side = [(place, line) for place, line in enumerate(lines) if line.kind in kinds]
            tokens = self._tokens([_text(line) for _, line in side], language)
            found |= {
                place: replace(line, pieces=tuple(overlay(line.pieces, own)))
                for (place, line), own in zip(side, tokens, strict=False)
                if own
            }
        return tuple(found.get(place, line) for place, line in enumerate(lines))

    def _tokens(self, texts: Sequence[str], language: str) -> Iterator[list[Token]]:
        """Yield the tokens of each line. Lexers see blocks of lines, none longer than a coloured code block."""
        for block in blocks(texts):
            text = "\n".join(block)
            tokens = tokens_of(text, language) if len(text) <= self.left else []
            self.left -= len(text) if tokens else 0
            yield from by_line(tokens, len(block))


def blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines in blocks that may be coloured; a line that is too long is a block of its own."""
    block: list[str] = []
    size = 0
    for text in texts:
        if block and size + len(text) >= MAX_COLOURED:
            yield block
            block, size = [], 0
        block.append(text)
        size += len(text) + 1
    if block:
        yield block


def by_line(tokens: Iterable[Token], count: int) -> list[list[Token]]:
    """Return the tokens of each of ``count`` lines: a token that spans lines is on all of them."""
    lines: list[list[Token]] = [[]]
    for look, text in tokens:
        first, *others = text.split("\n")
        lines[-1].append((look, first))
        lines += [[(look, other)] for other in others]
    return [*lines, *([] for _ in range(count - len(lines)))][:count]


def overlay(runs: Sequence[TextRun], tokens: Sequence[Token]) -> Iterator[TextRun]:
    """Yield the runs of a line, cut where its colour changes; unchanged if the tokens are those of another text."""
    if "".join(run.text for run in runs) != "".join(text for _, text in tokens):
        yield from runs
        return
    looks = [(look, len(text)) for look, text in tokens if text]
    for run in runs:
        text = run.text
        while text:
            look, size = looks.pop(0)
            if size > len(text):
                looks.insert(0, (look, size - len(text)))
            yield replace(run, text=text[:size], look=look)
            text = text[size:]


def _text(line: DiffLine) -> str:
    return "".join(run.text for run in line.pieces)
