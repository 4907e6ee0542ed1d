"""Rules: what one answers, would have answered, and what is suggested. The decision is one pure function for all three.

A condition is text in the filter language. Its keys are values of the card; every part of it must hold. What a card
does not have, has several of, or has in another type, fits no condition.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache, partial
from hashlib import sha256
from math import fsum
from operator import eq, ge, gt, le, lt
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Count, Exists, OuterRef, Q, TextField
from django.db.models.functions import Cast

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.content.encryption import Encryptor, encrypted_text_in
from checkpoints.errors import Unreadable
from checkpoints.models import Answer, HumanRequest, Reply, Rule, RuleUse
from checkpoints.models.fields import StoredDocument, current_encryptor, decrypted
from checkpoints.models.user_model import USERNAME
from checkpoints.records import Json, JsonObject, frozen
from checkpoints.rules import RISKS, card_subject, rule_name
from wfdash.access.directory import is_service
from wfdash.access.viewer import Origin, Viewer, origin_of, viewer_for
from wfdash.domain.errors import Invalid, NotFound
from wfdash.domain.labels import is_deceiving, visible
from wfdash.domain.search_attributes import moment_in, number_of
from wfdash.engines import catalog
from wfdash.queries.requests.decisions import ANSWERED, reversed_later
from wfdash.queries.requests.inbox import RISK_NAMES
from wfdash.queries.search import SIGNS, ListFilter, Qualifier, Suggestion, Term, edge_of, split
from wfdash.queries.unreadable import is_readable
from wfdash.questions.policy import HIGH_RISK
from wfdash.records.requests import RehearsalRecord, RuleDetail, RuleDifference, RuleSummary, RuleUseRecord
from wfdash.values.fingerprints import note_of
from wfdash.values.schemas.secrets import secret_names

Card = Mapping[str, Any]
Fits = Callable[[Card], bool]
ToFit = Callable[[Term], Fits]
"""Returns what tells whether a card has one of the values of a term."""
PARTS = ("proposal", "context")
"""The parts of a card whose values a condition may name."""


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """Return a name as a filter has it, which is in lower case."""
    return re.sub(r"[^\w-]+", "_", name.lower())


@lru_cache(maxsize=256)
def _key(keys: tuple[str, ...], part: str) -> str | None:
    named = [key for key in keys if _plain(key) == part and "." not in key]
    return named[0] if len(named) == 1 else None


def value_at(card: Card, term: Term) -> Json:
    """Return the single value of a card that a term names; None where there is none, or several have that name.

    A key with a dot has no name: what its author calls untrusted would be another one.
    """
    node: Any = card.get(term.key)
    for part in term.path.split(".") if term.path else ():
        key = _key(tuple(node), part) if isinstance(node, dict) else None
        if key is None:
            return None
        node = node[key]
    return node if isinstance(node, (str, int, float)) else None


def _fits(term: Term) -> Fits:
    compare, numbers = COMPARE[term.sign], [one for one in map(number_of, term.values) if one is not None]
    texts, starts = {*term.values}, tuple(value[:-1] for value in term.values if value.endswith("*"))
    truths = {value.lower() for value in term.values}

    def fits(card: Card) -> bool:
        found = value_at(card, term)  # Once: a card may have thousands of keys, and a term hundreds of values.
        if not term.sign and isinstance(found, str):
            return found in texts or found.startswith(starts)
        if not term.sign and isinstance(found, bool):
            return str(found).lower() in truths
        number = number_of(found)
        return number is not None and any(compare(number, one) for one in numbers)

    return fits


COMPARE: dict[str, Callable[[float, float], bool]] = {"": eq, "<": lt, ">": gt, "<=": le, ">=": ge}


def _names_in(part: str) -> Callable[[Card], Iterable[Suggestion]]:
    """Return what lists the values that a card has in a part of it."""

    def walk(node: Any, path: tuple[str, ...]) -> Iterator[Suggestion]:
        if isinstance(node, dict) and len(path) < 4:
            for key, below in node.items():
                yield from walk(below if "." not in key else None, (*path, _plain(key)))
        elif isinstance(node, str | int | float) and len(path) > 1:
            yield Suggestion(".".join(path), visible(str(node))[:60])

    return lambda card: walk(card.get(part), (part,))


def _accepts(value: str, sign: str) -> bool:
    if sign:
        return number_of(value) is not None
    return value != "*" and None in map(number_of, value.partition("..")[::2])


def _values_of(part: str, example: str) -> Qualifier[ToFit, Card]:
    """Return the key of the values of one part of a card."""
    meaning = "the same text, number, yes or no; ref* for a beginning; <100 for numbers, >=5 besides for a range"
    return Qualifier(part, example, meaning, _fits, accepts=_accepts, signs=SIGNS, paths=_names_in(part))


QUALIFIERS: tuple[Qualifier[ToFit, Card], ...] = (
    _values_of("proposal", "proposal.amount:<100"),
    _values_of("context", 'context.customer:"Blue Chair"'),
    Qualifier(
        "tool",
        "tool:refund",
        "a call of this tool",
        condition=lambda term: (
            lambda card: isinstance(card.get("tool"), dict) and card["tool"].get("name") in term.values
        ),
    ),
    Qualifier(
        "risk",
        "risk:low",
        "low, medium or none",
        only=("low", "medium", "none"),
        condition=lambda term: (
            lambda card: RISK_NAMES.get(RISKS.get(card.get("risk") or "", 0), "none") in map(str.lower, term.values)
        ),
    ),
)
FILTER: ListFilter[ToFit, Card] = ListFilter(
    qualifiers=QUALIFIERS,
    words="words",
    word_flaw=lambda word: "A rule reads values, not words: write proposal.amount:<100",
)


def parse_condition(text: str) -> tuple[Term, ...]:
    """Return what a condition asks for; ``Invalid`` at ``condition`` names each part that it cannot be, and why."""
    found = FILTER.read(text)
    flaws = [(flaw.part, flaw.message) for flaw in found.flaws]
    flaws += [
        (f"-{term.name}", "A rule says what it answers: exclude nothing, name what may be there")
        for term in found.terms
        if term.negated
    ]
    if not flaws and not any(term.key in (*PARTS, "tool") for term in found.terms):
        flaws.append(("", "Name a value of the card, as proposal.amount:<100"))
    if is_deceiving(text):
        flaws.append(("", "Leave out characters that no one can see"))
    if flaws:
        raise Invalid([{"loc": ["condition", part] if part else ["condition"], "msg": msg} for part, msg in flaws])
    return found.terms


def bounded(text: str, terms: Iterable[Term]) -> str:
    """Return a condition with ``>=0`` for each number that has an upper bound alone, if that is above 0.

    Who writes ``<100`` thinks of an amount: a program that asks could send -5000.
    """
    most = {term.name: max(number_of(value) or 0 for value in term.values) for term in terms if "<" in term.sign}
    for term in terms:
        if ">" in term.sign:
            most.pop(term.name, None)
    return " ".join([*(f"{name}:>=0" for name in most if most[name] > 0), text])


@dataclass(frozen=True, eq=False)
class RuledQuestion:
    """A request as rules see it, but for its card. ``again``: it is asked again, after a change or a restore."""

    workflow: str
    step: str
    kind: str
    risk: int
    schema: JsonObject
    policy: Mapping[str, Any]
    not_by: Sequence[str] | None
    by: Sequence[str] | None
    origin: Origin
    again: bool

    @cached_property
    def form(self) -> str:
        """Return what tells the form of its answer from others."""
        return form_of(self.schema)

    @cached_property
    def secrets(self) -> Collection[str]:
        """Return the names that are secret."""
        return secret_names(self.schema) | catalog.secrets_of(self.workflow)


@frozen
class RuleTerms:
    """What decides whether a rule answers a request: nothing else does, in a rehearsal and in life."""

    workflow: str
    step: str
    kind: str
    form: str
    terms: tuple[Term, ...]
    tests: tuple[Fits, ...] = field(compare=False)
    owner: Viewer | None
    """The owner, if they may answer requests of the workflow; without those they stand in for."""
    makers: tuple[str, ...]
    """The owner, and who switched it on once it is."""

    def fits(self, asked: RuledQuestion, card: Card) -> bool:
        """Return whether the rule answers this request."""
        return self.admits(asked) and self.holds(card)

    def admits(self, asked: RuledQuestion) -> bool:
        """Return whether the rule answers such requests, where its condition holds."""
        return (
            asked.form == self.form
            and self.is_for(asked)
            and not no_rule_because(asked, self.terms)
            and self.owner is not None
            and (not asked.by or self.owner.addressed(asked.by, (), asked.origin))
            and not any(map(asked.origin.includes, self.makers))
            and (asked.policy.get("rules", 1) < 2 or len(set(self.makers)) == 2)
        )

    def is_for(self, asked: RuledQuestion) -> bool:
        """Return whether the rule is for questions of this step, whatever their form and policy."""
        return (asked.workflow, asked.step, asked.kind) == (self.workflow, self.step, self.kind)

    def holds(self, card: Card) -> bool:
        """Return whether the condition holds of a card."""
        return all(test(card) for test in self.tests)


def terms_of(rule: Rule, form: str = "") -> RuleTerms:
    """Return what a stored rule decides by (one query); before it is on, as if another person switched it on.

    ``form``: another form of the question than the one it was rehearsed for.
    """
    terms, owner = parse_condition(rule.condition), rule.owner.get_username()
    found = viewer_for(rule.owner)
    return RuleTerms(
        workflow=rule.workflow,
        step=rule.step,
        kind=rule.kind,
        form=form or rule.form,
        terms=terms,
        tests=tuple(FILTER[term.key].condition(term) for term in terms),
        owner=replace(found, acts_for=()) if found.may("answer", rule.workflow) else None,
        makers=(owner, (rule.switched_by or owner) if rule.state == "on" else ""),
    )


def no_rule_because(asked: RuledQuestion, terms: Iterable[Term]) -> str:
    """Return why no rule with these terms may answer this request, whatever they say; empty if one may."""
    policy = asked.policy
    if asked.risk >= HIGH_RISK:
        return "Its risk is high"
    if policy.get("need", 1) > 1:
        return "Several people decide it"
    if asked.not_by:
        return "Its policy excludes people"
    if policy.get("sign"):
        return "Who answers signs it"
    if not policy.get("batch", True):
        return "Its policy wants each decided individually"
    if not policy.get("rules", 1):
        return "Its policy allows no rule"
    if asked.again:
        return "It is asked again"
    closed = [(*map(_plain, name.split(".")),) for name in policy.get("untrusted", ())]
    secrets = {*map(_plain, asked.secrets)}
    for term in terms if closed or secrets else ():
        path = (term.key, *term.path.split("."))
        if not secrets.isdisjoint(path):
            return f"{term.name} is secret"
        if any(path[: len(one)] == one for one in closed):
            return f"An outsider could choose {term.name}"
    return ""


def form_of(schema: Json) -> str:
    """Return what tells the form of an answer from others."""
    return sha256(dumps(schema)).hexdigest()


def asked_of(row: HumanRequest) -> RuledQuestion:
    """Return a readable request as rules see it."""
    given = row.answer_schema, row.policy or {}, row.not_by, row.by, origin_of(row.run)
    return RuledQuestion(row.workflow, row.step, row.kind, row.risk, *given, bool(row.replaces or note_of(row.card)))


# History: what people decided of one step, without what was undone, asked again, overridden, or decided by no person;
# second looks are no decisions.

MOST_DECISIONS = 100_000
"""The latest decisions of a step that are read."""
FEWEST = 20_000
"""Decisions of all steps that are looked through for those of one; for many of it, four times as many."""
COLUMNS = ("kind", "risk", "replaces", f"run__created_by__{USERNAME}")
DOCUMENTS = ("answer_schema", "policy", "not_by", "by", "run__requesters")
TEXTS = {f"{column}_text": Cast(column, TextField()) for column in ("answered", "card", *DOCUMENTS)}
"""What is read as it is stored: Django would take most of the time to decode it, and most of it is alike or unused."""
MOST_ALIKE = 1_000
"""The latest different questions whose documents are read once, and that a rule looks at once."""


class PastDecision(NamedTuple):
    """What a person decided. ``asked``: one object for questions that are alike but for their cards."""

    id: str
    asked: RuledQuestion
    card: Card
    verdict: str
    at: str
    """As it is stored."""


def recently_answered(most: int) -> Q:
    """Return the condition of the latest ``most`` decisions of all steps (one query)."""
    latest = HumanRequest.objects.filter(answered__isnull=False).order_by("-answered", "-id")
    edge = edge_of(latest, "answered", most)
    return Q(answered__isnull=False) if edge is None else Q(answered__gte=edge)


def read_history(workflow: str, step: str, most: int = MOST_DECISIONS) -> Iterator[PastDecision | None]:
    """Yield what people decided of a step, the latest first; None for what cannot be read (two queries)."""
    overrode = Reply.objects.filter(request=OuterRef("pk"), stands="overrode", undone__isnull=True)
    rows = HumanRequest.objects.filter(ANSWERED, ~reversed_later(), ~Exists(overrode), workflow=workflow, step=step)
    rows = rows.filter(recently_answered(max(4 * most, FEWEST)), answer__by__isnull=False)
    found = rows.order_by("-answered", "-id").annotate(**TEXTS).values_list("id", "answer__verdict", *TEXTS, *COLUMNS)
    keys, asked_as = current_encryptor(), lru_cache(MOST_ALIKE)(partial(_asked_as, workflow, step))
    for pk, verdict, at, text, *columns in found[:most].iterator(2000):
        try:
            card = _document("card", text, pk, keys)
            asked = asked_as(pk if keys.active else "", bool(note_of(card)), *columns)
        except (Unreadable, ValueError, AttributeError):
            yield None
            continue
        yield PastDecision(pk, asked, card, verdict, at)


def _asked_as(workflow: str, step: str, pk: str, again: bool, *columns: Any) -> RuledQuestion:
    *texts, kind, risk, replaces, starter = columns
    read = (_document(column, text, pk, current_encryptor()) for column, text in zip(DOCUMENTS, texts, strict=True))
    schema, policy, not_by, by, requesters = read
    origin = Origin(starter=starter or "", others=frozenset(requesters or ()))
    again = again or bool(replaces)
    return RuledQuestion(workflow, step, kind, risk, schema, policy or {}, not_by, by, origin, again)


def _document(column: str, text: str | None, pk: str, keys: Encryptor) -> Any:
    """Return a column's document, from its text as it is stored. ``Unreadable``; ``ValueError`` for broken JSON."""
    document = loads(text or "null")
    if column in ("card", "answer_schema") and (keys.strict or encrypted_text_in(document) is not None):
        document = decrypted(HumanRequest, column, StoredDocument(document), pk)
    return document


MONEY = ("amount", "total", "price", "cost", "sum", "value")
MOST_LISTED = 50


def rehearse(rule: RuleTerms, action: str, history: Iterable[PastDecision | None]) -> RehearsalRecord:
    """Return what a rule would have answered of these decisions, and how people decided them."""
    fitting, rest, against = Counter[str](), Counter[str](), list[tuple[str, str]]()
    money: dict[bool, list[float]] = {True: [], False: []}
    unread, since, priced = 0, "", next((term for term in rule.terms if term.path.rpartition(".")[2] in MONEY), None)
    admits = lru_cache(MOST_ALIKE)(rule.admits)
    for past in history:
        if past is None:
            unread += 1
            continue
        since = past.at
        if not (admits(past.asked) and rule.holds(past.card)):
            rest[past.verdict] += 1
            continue
        fitting[past.verdict] += 1
        same = past.verdict == action
        if not same and len(against) < MOST_LISTED:
            against.append((past.id, past.verdict))
        priced = priced or _priced(past.card)
        if priced and (amount := number_of(value_at(past.card, priced))) is not None:
            money[same].append(amount)
    return RehearsalRecord.trusted(
        looked=fitting.total() + rest.total(),
        unread=unread,
        since=moment_in(since),
        fitting=dict(fitting),
        rest=dict(rest),
        agreed=fitting[action],
        against=tuple(RuleDifference(request=one, verdict=verdict) for one, verdict in against),
        field=priced.name if priced else "",
        money=(fsum(money[True]), fsum(money[False])) if priced else (),
    )


def _priced(card: Card) -> Term | None:
    """Return the amount of money that a card has, if one of its values is called so."""
    proposal = card.get("proposal")
    names = [_plain(name) for name in proposal] if isinstance(proposal, dict) else []
    return next((Term(key="proposal", values=(), path=name) for name in MONEY if name in names), None)


# Suggestions: the shortest condition that many decisions fit, all of them approved as proposed.

LEAST_ALIKE = 20
"""Decisions that have to agree before a rule is suggested."""
MOST_SUGGESTING = 500
"""The latest decisions that a suggestion is taken from."""
MOST_TERMS = 3


@frozen
class SuggestedRule:
    """A condition, how many decisions of a step fit it, all of them approved unchanged, and since when."""

    workflow: str
    step: str
    condition: str
    count: int
    since: datetime | None

    @property
    def query(self) -> str:
        """Return what fills the form of a new rule in, as the query of its address."""
        return urlencode({"workflow": self.workflow, "step": self.step, "condition": self.condition})


def suggest(viewer: Viewer, workflow: str, step: str, like: Card | None = None) -> SuggestedRule | None:
    """Return a condition for this step that the card ``like`` fits, or the latest that was approved; None without one.

    Only for people who may make rules there, where there is none yet (three queries). What they asked for themselves
    does not count: a rule of theirs never answers that.
    """
    rules = Rule.objects.filter(workflow=workflow, step=step).exclude(state="suspended")
    if not may_make(viewer, workflow) or rules.exists():
        return None
    past = [one for one in read_history(workflow, step, MOST_SUGGESTING) if one is not None]
    past = [one for one in past if not no_rule_because(one.asked, ())]
    good = [one for one in past if one.verdict == "approve" and not one.asked.origin.includes(viewer.name)]
    if len(good) < LEAST_ALIKE:
        return None
    found = _condition(like or good[0].card, good, [one for one in past if one.verdict != "approve"])
    if found is None:
        return None
    condition, fitting = found
    return SuggestedRule(
        workflow=workflow, step=step, condition=condition, count=len(fitting), since=moment_in(fitting[-1].at)
    )


def _condition(like: Card, good: list[PastDecision], bad: list[PastDecision]) -> tuple[str, list[PastDecision]] | None:
    """Return the part by part shortest condition that holds of ``like`` and of nothing bad, and what it fits."""
    parts, left = list[str](), bad
    open_ = dict(_candidates(like, good))
    while (left or not parts) and open_ and len(parts) < MOST_TERMS:
        ranked = []
        for text, terms in open_.items():
            tests = [FILTER[term.key].condition(term) for term in terms]
            holding = [one for one in good if all(test(one.card) for test in tests)]
            keeps = [one for one in holding if not no_rule_because(one.asked, terms)]
            lets = [one for one in left if all(test(one.card) for test in tests)]
            ranked.append((len(lets), -len(keeps), text, keeps, lets))
        _, _, text, keeps, left = min(ranked, key=lambda one: one[:3])
        if len(keeps) < LEAST_ALIKE:
            return None
        good = keeps
        parts.append(text)
        del open_[text]
    return (" ".join(parts), good) if parts and not left else None


def _candidates(like: Card, good: list[PastDecision]) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """Yield parts of conditions that hold of ``like``: its numbers from the least to the most that was approved, its
    texts as they are.
    """
    for part in PARTS:
        for name, _ in _names_in(part)(like):
            term = Term(key=part, values=(), path=name.partition(".")[2])
            value = value_at(like, term)
            if isinstance(value, bool):
                said = [str(value).lower()]
            elif (mine := number_of(value)) is not None:
                known = [number for one in good if (number := number_of(value_at(one.card, term))) is not None]
                if not known or not min(known) <= mine <= max(known):
                    continue
                said = [f">={_written(min(known))}", f"<={_written(max(known))}"]
            elif isinstance(value, str) and value and '"' not in value and "*" not in value:
                said = [value if re.fullmatch(r"[\w-]+", value) else f'"{value}"']
            else:
                continue
            found = " ".join(f"{name}:{text}" for text in said)
            read = FILTER.read(found)
            if not read.flaws and not is_deceiving(found):
                yield found, read.terms


def _written(number: float) -> str:
    return f"{number:g}" if number_of(f"{number:g}") == number else f"{number:.9f}".rstrip("0").rstrip(".")


# Rules as they are shown. Who may answer and read the values of a workflow makes rules; who may operate it stops them.


def may_make(viewer: Viewer, workflow: str) -> bool:
    """Return whether this person may make, rehearse and try rules there: a rehearsal tells of all cards and answers.

    No program may, nor an agent with a person's token.
    """
    person = viewer.made_by is None and not viewer.through_agents and not (viewer.token and is_service(viewer.user))
    return person and viewer.may("answer", workflow) and viewer.may("inspect", workflow)


def rule_of(viewer: Viewer, text: str) -> tuple[str, str]:
    """Return the query that fills in a new rule from a filter of the inbox; else, why no rule can ask for the same.

    Both are empty where the filter names no single workflow for which this person may make rules.
    """
    names, kept, wrong = dict[str, str](), list[str](), ""
    for part, said in split(text):
        term = said if isinstance(said, Term) and not said.negated else None
        if term and term.key in ("workflow", "step") and len(term.values) == 1 and term.key not in names:
            names[term.key] = term.values[0]
        elif term and term.key == "risk" and not FILTER.read(part).flaws:
            kept.append(part)
        elif part.strip():
            wrong = wrong or part
    if not names.get("workflow") or not may_make(viewer, names["workflow"]):
        return "", ""
    if wrong:
        return "", f"No rule can be made of this filter: a rule cannot ask for {wrong}"
    if "step" not in names:
        return "", "A rule is for one step. To make one, add step: and its name"
    return urlencode({**names, "condition": " ".join(kept)}), ""


def may_stop(viewer: Viewer, rule: Rule | RuleSummary) -> bool:
    """Return whether this person may suspend a rule: who may operate its workflow, and its owner."""
    owner = rule.owner if isinstance(rule, RuleSummary) else rule.owner.get_username()
    return viewer.may("operate", rule.workflow) or (viewer.name == owner and viewer.reaches("answer", rule.workflow))


def read_rules(viewer: Viewer, workflow: str = "") -> tuple[RuleSummary, ...]:
    """Return the rules of a workflow, or of all, that this person may read, the newest first (two queries)."""
    rows = Rule.objects.filter(viewer.scope("inspect")).select_related("owner").order_by("-id")
    found = list(rows.filter(workflow=workflow) if workflow else rows)[:MOST_RULES]
    counts = _counts([row.pk for row in found])
    return tuple(RuleSummary.trusted(**_facts(row, counts)) for row in found)


def find_rule(viewer: Viewer, rule_id: int) -> Rule:
    """Return a rule through its viewer. ``NotFound``."""
    row = Rule.objects.filter(viewer.scope("inspect"), pk=rule_id).select_related("owner").first()
    if row is None:
        raise NotFound("Rule not found, or you may not read the values of its workflow")
    return row


def read_rule(viewer: Viewer, rule_id: int) -> RuleDetail:
    """Return a rule with its rehearsal and latest uses (four queries). ``NotFound``."""
    row = find_rule(viewer, rule_id)
    known = row.rehearsal and RehearsalRecord.model_validate(row.rehearsal)
    rows = row.uses.filter(Q(agrees__isnull=False) | Q(kind="answer")).select_related(
        "request__answer", "request__second_look"
    )
    latest = [
        *rows.filter(agrees=False).order_by("-id")[:MOST_LISTED],
        *rows.exclude(agrees=False).order_by("-id")[:MOST_LISTED],
    ]
    return RuleDetail.trusted(**_facts(row, _counts([row.pk])), rehearsal=known, uses=tuple(map(_use, latest)))


def subjects_of(requests: Sequence[str]) -> dict[str, str]:
    """Return request -> its subject, where it can be read without its card (one query)."""
    rows = HumanRequest.objects.filter(pk__in=requests, subject__isnull=False).values_list("pk", "subject")
    return {pk: visible(subject) for pk, subject in rows}


MOST_RULES = 500


def _use(use: RuleUse) -> RuleUseRecord:
    row = use.request
    return RuleUseRecord.trusted(
        request=row.pk,
        subject=visible(card_subject(row.card, row.step)) if is_readable(row) else row.step,
        kind=use.kind,
        verdict=verdict_of_people(row),
        at=use.at,
        agrees=use.agrees,
    )


def verdict_of_people(row: HumanRequest) -> str:
    """Return what a person decided, or would have at a second look; else what was decided, empty if nothing was."""
    answer, look = getattr(row, "answer", None), getattr(row, "second_look", None)
    said = look if look and answer and not answer.by_id else answer
    return said.verdict if said else ""


BY_RULE = Q(kind="answer") | Q(
    Exists(Answer.objects.filter(request=OuterRef("request"), rule=OuterRef("rule"))), kind="sample"
)
"""Uses that the rule answered, whether a second look was asked for or not."""


def _counts(rules: Sequence[int]) -> dict[int, Counter[str]]:
    """Return rule -> how many it answered, and how often people agreed and differed (one query)."""
    found: dict[int, Counter[str]] = {pk: Counter() for pk in rules}
    rows = (
        RuleUse.objects.filter(rule__in=rules)
        .values_list("rule_id", "agrees")
        .annotate(n=Count("pk"), answered=Count("pk", filter=BY_RULE))
        .order_by()
    )
    for rule, agrees, number, by_rule in rows:
        found[rule]["answered"] += by_rule
        if agrees is not None:
            found[rule]["agreed" if agrees else "differed"] += number
    return found


def _facts(row: Rule, counts: Mapping[int, Counter[str]]) -> JsonObject:
    same = ("id", "workflow", "step", "kind", "condition", "action", "state", "since", "created", "expires", "quota")
    more = ("days", "share", "switched_by", "problem")
    numbers = {name: counts[row.pk][name] for name in ("answered", "agreed", "differed")}
    return {
        **{name: getattr(row, name) for name in (*same, *more)},
        **numbers,
        "name": rule_name(row.pk),
        "owner": row.owner.get_username(),
    }
