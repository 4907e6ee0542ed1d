"""The policies' page: its example runs, and its card says what the page says it does."""

from __future__ import annotations

import re
from pathlib import Path

from wfdash.questions.policy import sentence

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def test_the_example_of_the_policies_page_says_what_the_page_says() -> None:
    text = PAGE.read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    scope: dict[str, object] = {"__name__": "guide"}
    exec(compile(block, str(PAGE), "exec"), scope)
    payment, payments = scope["Payment"], scope["payments"]
    assert sentence(payments.policy.resolved(payment(to="x", amount=12_000))) in " ".join(text.split())
