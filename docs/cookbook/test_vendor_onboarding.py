from vendor_onboarding import vendor_onboarding

VENDOR = {"name": "Tea House", "country": "DE", "iban": "FR7630006000011234567890189"}


async def test_purchasing_sees_what_the_checks_found_and_its_correction_is_created() -> None:
    waiting = await vendor_onboarding.run(message=VENDOR)
    (request,) = waiting.requests
    assert request.card["risk"] == "high"
    corrected = {**VENDOR, "iban": "DE89370400440532013000"}
    answers = {request.key: {"action": "edit", "edited": corrected}}
    finished = await vendor_onboarding.run(checkpoint=waiting.checkpoint, answers=answers)
    assert finished.output == "V-3000"


async def test_a_rejected_vendor_is_not_created() -> None:
    waiting = await vendor_onboarding.run(message=VENDOR)
    answers = {waiting.requests[0].key: {"action": "reject", "reason": "No contract"}}
    finished = await vendor_onboarding.run(checkpoint=waiting.checkpoint, answers=answers)
    assert finished.output == "Tea House was declined: No contract"
