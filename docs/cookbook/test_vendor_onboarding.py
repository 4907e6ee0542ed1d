import pytest
from vendor_onboarding import vendor_onboarding

from wfdash.testing import NotAllowed, bench

VENDOR = {"name": "Tea House", "country": "DE", "iban": "FR7630006000011234567890189"}
CORRECTED = {**VENDOR, "iban": "DE89370400440532013000"}
PEOPLE = {"ana": ["purchasing"], "otto": ["purchasing"]}
ROLES = {"ana": "reviewer", "otto": "operator"}


async def test_purchasing_sees_what_the_checks_found_and_its_correction_is_created() -> None:
    async with bench(vendor_onboarding, people=PEOPLE, roles=ROLES) as t:
        run = await t.start(VENDOR, by="otto")
        assert run.request.card["risk"] == "high"
        with pytest.raises(NotAllowed):
            await t.answer(run, "approve", by="otto")
        await t.answer(run, "edit", edited=CORRECTED, by="ana")
        assert run.output == "V-3000"
        assert [call.name for call in t.calls] == ["on_sanctions_list", "create_in_accounting"]


async def test_a_crash_while_the_vendor_is_created_asks_a_person_instead_of_creating_two() -> None:
    async with bench(vendor_onboarding, people=PEOPLE) as t:
        t.crash_after("create_in_accounting", recorded=False)
        run = await t.start(CORRECTED)
        await t.answer(run, "approve", by="ana")
        assert run.request.subject.startswith("Did 'create_in_accounting' succeed")
        await t.answer(run, "happened", result="V-3000", by="ana")
        assert run.output == "V-3000"


async def test_a_rejected_vendor_is_not_created() -> None:
    async with bench(vendor_onboarding, people=PEOPLE) as t:
        run = await t.start(VENDOR)
        await t.answer(run, "reject", reason="No contract", by="ana")
        assert run.output == "Tea House was declined: No contract"
