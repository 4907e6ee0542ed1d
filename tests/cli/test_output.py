"""What commands print of values that no author thought of."""

from __future__ import annotations

import json

import pytest

from wfdash.cli.output import Output

ODD = "\x1b[2J \x9b31m \u202eevil\u2069 \u200b\u2028 \x7f half \ud800 \x00 東京\n\tÀ"


@pytest.mark.parametrize("value", [ODD, {ODD: [ODD]}])
def test_json_says_the_same_without_a_character_that_a_terminal_would_obey(value: object, capsys) -> None:
    Output(as_json=True).data(value)
    printed = capsys.readouterr().out
    assert json.loads(printed) == value
    assert all(char.isprintable() or char == "\n" for char in printed)
    assert "東京" in printed
