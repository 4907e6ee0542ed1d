from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wfdash.installation.keep_rules import keep_rules, read_keep_rules

THEN = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", None),
        ("90", {"*": 90}),
        ("0.5", {"*": 0.5}),
        ("forever", {"*": None}),
        ("90, payments=3650, scratch=7,ledger=forever", {"*": 90, "payments": 3650, "scratch": 7, "ledger": None}),
        ("scratch=7", {"scratch": 7}),
    ],
)
def test_a_variable_says_for_how_long_runs_are_kept(text, rules):
    assert read_keep_rules(text) == rules


@pytest.mark.parametrize("text", ["0", "-3", "nan", "90 days", "a=", "=7", "90,30", "a=7,a=8", "a=1e9"])
def test_a_variable_that_says_it_otherwise_is_refused_with_its_part(text):
    with pytest.raises(ValueError, match=r"WFDASH_KEEP_RUNS: .+ must be days"):
        read_keep_rules(text)


@pytest.mark.parametrize("setting", [0, True, "90", {"a": "7"}, {"*": -1}])
def test_a_setting_of_a_project_that_is_no_number_of_days_is_refused(setting):
    with pytest.raises(ValueError, match="WFDASH_KEEP_RUNS"):
        keep_rules(setting)


def test_a_workflow_has_the_rule_with_its_name_or_that_of_all_others():
    rules = keep_rules({"*": 90, "payments": 3650, "ledger": None})
    assert [rules.days(name) for name in ("payments", "ledger", "refund")] == [3650, None, 90]
    assert rules.removed_at("refund", THEN) == THEN + timedelta(days=90)
    assert rules.removed_at("ledger", THEN) is None
    assert (rules.shortest, str(rules)) == (90, "90 days, ledger: forever, payments: 3650 days")


def test_without_a_rule_that_names_days_nothing_is_ever_removed():
    assert not any(map(keep_rules, (None, {}, {"*": None}, {"ledger": None})))
