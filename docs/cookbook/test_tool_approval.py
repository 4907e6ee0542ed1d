from typing import Any

import pytest
from tool_approval import support

from wfdash.testing import bench


@pytest.mark.parametrize(
    ("action", "fields", "output"),
    [
        ("approve", {}, "Done (refund: 80.00 paid for A-7)"),
        ("edit", {"arguments": {"order": "A-7", "amount": 40}}, "Done (refund: 40.00 paid for A-7)"),
        ("reject", {"feedback": "Ask for a photo"}, "Done (refund: not allowed: Ask for a photo)"),
        ("respond", {"response": "refunded by hand"}, "Done (refund: refunded by hand)"),
    ],
)
async def test_the_tool_is_called_as_approved_and_the_model_hears_of_it(
    action: str, fields: dict[str, Any], output: str
) -> None:
    async with bench(support, people={"ana": ["support"]}) as t:
        run = await t.start("My teapot is broken")
        assert run.request.subject == "A-7, amount 80 · refund"
        await t.answer(run, action, by="ana", **fields)
        assert run.output == output
