from typing import Any

import outside_ask
import pytest

from wfdash.client import Decision


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision(action="approve", by="ana"), "deployed 2.4, approved by ana"),
        (Decision(action="reject", reason="Friday", by="ana"), "not deployed: Friday"),
    ],
)
def test_the_script_does_what_was_decided(decision: Decision, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def ask_sync(card: Any, **terms: Any) -> Decision:
        asked.append((card.subject, terms))
        return decision

    monkeypatch.setattr(outside_ask, "ask_sync", ask_sync)
    assert outside_ask.deploy("2.4") == said
    assert asked == [("Deploy 2.4?", {"by": "release", "due": "4h", "ref": "deploy 2.4"})]
