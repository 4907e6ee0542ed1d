"""Whom questions are addressed to: those of the workflows that are loaded, and those that are open now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from checkpoints.models import FOR_PEOPLE, HumanRequest
from wfdash import catalog
from wfdash.access.viewer import REQUESTER, Origin, Viewer
from wfdash.contract import Addressees

STRANGER = Origin()


@dataclass(frozen=True, kw_only=True)
class AddressedQuestion(Addressees):
    """What a step asks of the same people. ``open``: how many such requests are open; 0: only the code has it."""

    workflow: str
    open: int = 0

    @property
    def names(self) -> frozenset[str]:
        """Return the names of people and groups in it."""
        return frozenset({*self.by, *self.not_by, *self.escalate} - {REQUESTER})


@dataclass(frozen=True, kw_only=True)
class AnswerStanding:
    """Whether a person may answer a question, and why. ``kind``: may, override, excluded, or none.

    ``own``: what it says of the runs they started themselves, empty where that makes no difference.
    """

    kind: str
    words: str = ""
    own: str = ""


def standing_of(person: Viewer, question: AddressedQuestion) -> AnswerStanding:
    """Return whether a person may answer what a step asks, in a run that they did not start.

    Decided by the rules that decide when they answer. ``person`` has their groups, their rights for the workflow and
    whom they act for.
    """
    if not person.may("answer", question.workflow):
        return AnswerStanding(kind="none")
    excluding = next((name for name in question.not_by if name == person.name or name in person.groups), "")
    if person.excluded(question.not_by, STRANGER):
        return AnswerStanding(kind="excluded", words=f"by group {excluding}" if excluding != person.name else "by name")
    own = "not in runs they started" if REQUESTER in question.not_by else ""
    right = person.right_for(question.by, question.not_by, STRANGER)
    if right is not None:
        return AnswerStanding(kind="may", words=right.words, own=own)
    if person.right_for(question.by, question.not_by, Origin(starter=person.name)) is not None:
        return AnswerStanding(kind="may", words="the requester", own="only in runs they started")
    if question.override and person.may("operate", question.workflow):
        return AnswerStanding(kind="override", words="operator, with a reason", own=own)
    return AnswerStanding(kind="none")


def questions(workflows: Collection[str] | None = None) -> list[AddressedQuestion]:
    """Return the questions of these workflows (of all: None), by workflow in the order of steps (one query)."""
    known = dict.fromkeys(_in_code(workflows), 0)
    # What is open has the policy it was asked with: it is the same question if all that is stored is the same.
    stored = {replace(one, certain=True): one for one in reversed(known)}
    for question, count in _open(workflows).items():
        match = stored.get(question, question)
        known[match] = known.get(match, 0) + count
    return sorted((replace(one, open=count) for one, count in known.items()), key=_place)


def named_in(workflows: Collection[str] | None = None) -> frozenset[str]:
    """Return the names of people and groups that questions of these workflows name (one query)."""
    return frozenset[str]().union(*(question.names for question in questions(workflows)))


def naming(name: str) -> list[AddressedQuestion]:
    """Return the questions of all workflows that name this person or group (one query)."""
    return [question for question in questions() if name in question.names]


def _in_code(workflows: Collection[str] | None) -> Iterator[AddressedQuestion]:
    for entry in catalog.entries():
        if workflows is None or entry.name in workflows:
            for found in entry.addressees or ():
                yield AddressedQuestion(workflow=entry.name, **vars(found))


def _open(workflows: Collection[str] | None) -> Counter[AddressedQuestion]:
    rows = HumanRequest.objects.filter(FOR_PEOPLE, closed__isnull=True, answered__isnull=True)
    rows = rows if workflows is None else rows.filter(workflow__in=list(workflows))
    found = Counter[AddressedQuestion]()
    for workflow, step, by, not_by, policy in rows.values_list("workflow", "step", "by", "not_by", "policy"):
        given = policy or {}
        question = AddressedQuestion(
            workflow=workflow,
            step=step,
            by=tuple(by),
            not_by=tuple(not_by),
            escalate=tuple(given.get("escalate", ())),
            need=given.get("need", 1),
            override=given.get("override", True),
        )
        found[question] += 1
    return found


def _place(question: AddressedQuestion) -> tuple[str, str, tuple[str, ...]]:
    return question.workflow, question.step, question.by
