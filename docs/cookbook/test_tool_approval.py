from tool_approval import support

from wfdash.workflow import Waiting


async def answered(value: dict[str, object]) -> str:
    waiting = await support.run(message="My teapot is broken")
    assert isinstance(waiting, Waiting)
    (request,) = waiting.requests
    assert request.card["subject"] == "refund: A-7, 80"
    finished = await support.run(checkpoint=waiting.checkpoint, answers={request.key: value})
    return str(finished.output)


async def test_an_approved_tool_is_called_with_the_arguments_that_were_shown() -> None:
    assert await answered({"action": "approve"}) == "Done (refund: 80.00 paid for A-7)"


async def test_a_reviewer_can_lower_the_amount() -> None:
    edited = {"action": "edit", "arguments": {"order": "A-7", "amount": 40}}
    assert await answered(edited) == "Done (refund: 40.00 paid for A-7)"


async def test_the_model_is_given_the_reason_of_a_rejection() -> None:
    rejected = {"action": "reject", "feedback": "Ask for a photo first"}
    assert await answered(rejected) == "Done (refund: not allowed: Ask for a photo first)"
