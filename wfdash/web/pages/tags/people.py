"""``{% load people %}``: words of pages about people and roles."""

from __future__ import annotations

from django import template

from wfdash.access.viewer import AddressedQuestion, AnswerStanding, Role
from wfdash.queries.account import service_names
from wfdash.queries.people import EMPTY, MISSING, POWERLESS, step_titles
from wfdash.questions.policy import Policy, sentence
from wfdash.web.pages.people import role_title

register = template.Library()
NEEDS = {
    MISSING: "no group or user has this name",
    EMPTY: "no active members",
    POWERLESS: "no member may answer requests there",
}


@register.filter
def workflow_title(name: str) -> str:
    """Return what a grant's workflow is called."""
    return role_title(name)


@register.filter
def question_text(question: AddressedQuestion) -> str:
    """Return where a question is asked: workflow and step, with how many are open."""
    step = step_titles().get((question.workflow, question.step), question.step)
    opened = f" ({question.open} open)" if question.open else ""
    return f"{role_title(question.workflow)} / {step}{opened}"


@register.filter
def rule_text(question: AddressedQuestion) -> str:
    """Return whom a question is addressed to, as its card says it."""
    named = sentence(Policy(by=question.by, not_by=question.not_by, need=question.need))
    parts = [named or "Decided by any reviewer."]
    if question.escalate:
        parts.append(f"After a while {', '.join(question.escalate)} can also decide.")
    if not question.override:
        parts.append("No override.")
    if not question.certain:
        parts.append("The step may decide otherwise when it runs.")
    return " ".join(parts)


@register.filter
def standing_text(standing: AnswerStanding) -> str:
    """Return whether someone may answer, and why."""
    kinds = {"excluded": f"excluded {standing.words}", "override": "may override (operator, with a reason)"}
    words = kinds.get(standing.kind, f"may answer: {standing.words}")
    return f"{words}, {standing.own}" if standing.own else words


@register.filter
def reason_text(role: Role) -> str:
    """Return a role that gives a right, and where it comes from."""
    where = " of every workflow" if role.everywhere else ""
    source = " as superuser" if role.superuser else f" by group {role.group}" if role.group else ""
    return f"{role.name}{where}{source}"


@register.simple_tag(name="service_names")
def names_of_service_accounts() -> frozenset[str]:
    """Return the names of service accounts, to mark them among people (one query)."""
    return service_names()


@register.filter
def need_text(problem: str) -> str:
    """Return why no one answers to a name."""
    return NEEDS.get(problem, problem)
