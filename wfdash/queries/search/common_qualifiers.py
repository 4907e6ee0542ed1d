"""Qualifiers that several lists have alike, each of whose rows names its workflow."""

from __future__ import annotations

from wfdash.queries.search.conditions import ToQ, equals_or_begins
from wfdash.queries.search.qualifiers import Qualifier
from wfdash.queries.search.suggestions import ListedValues, listed_workflows

WORKFLOW: Qualifier[ToQ, ListedValues] = Qualifier(
    key="workflow",
    example="workflow:refund",
    meaning="this workflow; ref* for prefix",
    suggest=listed_workflows,
    condition=equals_or_begins("workflow"),
)
