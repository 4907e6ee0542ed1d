from __future__ import annotations

import io
import json
from typing import Any

import pytest

from wfdash.domain import hash_chain
from wfdash.domain.hash_chain import JsonStream

DOCUMENT = {"a": [1, 23.5, -4e10, 'x,]}"é', None, True, {"deep": [[], {}]}], "b": {}, "c": [], "d": {"n": 12}, "é": 7}


def read(text: str) -> dict[str, Any]:
    stream, found = JsonStream(io.StringIO(text)), dict[str, Any]()
    for name in stream.members():
        found[name] = list(stream.items()) if name in {"a", "c"} else stream.value()
    stream.end()
    return found


@pytest.mark.parametrize("part", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_is_the_same_however_it_is_cut(monkeypatch, part, indent) -> None:
    monkeypatch.setattr(hash_chain, "PART", part)
    assert read(json.dumps(DOCUMENT, indent=indent)) == DOCUMENT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"a": [1 2]}',
        '{"a": [1,]}',
        '{"a": [1}',
        '{"b"}',
        '{"b": }',
        '{"b": 1',
        "{1: 2}",
        '{"b": 1} x',
        '{"b": nul}',
    ],
)
def test_what_is_no_document_is_refused(text) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(text)
