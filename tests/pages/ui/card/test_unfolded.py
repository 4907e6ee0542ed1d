"""What is approved is in sight."""

from __future__ import annotations

from pydantic import BaseModel, Field

from wfdash.questions.cards import prepare
from wfdash.web.pages.ui.card import build
from wfdash.web.pages.ui.parts import unfold
from wfdash.workflow import Approval


class Account(BaseModel):
    iban: str = Field(title="IBAN")
    bank: str | None = None


class Vendor(BaseModel):
    name: str = Field(title="Legal name")
    accounts: list[Account]
    tags: list[str] = []
    head: Account | None = None


ACME = Vendor(name="Acme", accounts=[Account(iban="DE1"), Account(iban="FR2", bank="BNP")], tags=["a"])


def test_the_iban_of_a_vendor_is_on_the_card_under_its_title() -> None:
    asking = prepare(Approval(subject="Create?", proposal=ACME, edit=Vendor), None)
    part = build(asking.card, asking.schema).proposal
    assert part is not None
    assert [name for name, _ in part.value] == [
        "Legal name",
        "Accounts 1 › IBAN",
        "Accounts 1 › Bank",
        "Accounts 2 › IBAN",
        "Accounts 2 › Bank",
        "Tags",
        "Head",
    ]
    assert [inner.template for _, inner in part.value][1] == "components/parts/text.html"


def test_without_a_schema_the_names_of_code_are_labels_and_others_stay() -> None:
    assert unfold({"to": {"iban": "DE1", "a.b": {}}}, {}) == (("To › IBAN", "DE1"), ("To › a.b", {}))
    assert unfold([{"iban": "DE1"}], {}) == (("1 › IBAN", "DE1"),)


def test_many_values_stay_a_tree() -> None:
    assert unfold({"rows": [{"n": n} for n in range(21)]}, {}) == ()
    assert unfold("text", {}) == ()


def test_a_proposal_that_goes_deep_ends_somewhere() -> None:
    deep: object = 1
    for _ in range(50):
        deep = {"a": deep}
    ((label, _),) = unfold(deep, {})
    assert label == " › ".join("A" * 6)
