"""``ask`` and ``ask_sync``: a question to people from any Python program, in three lines.

```python
from wfdash.client import Approval, ask

decision = await ask("Ship version 2.4?", Approval, by="release", due="4h", ref="ship-2.4")
```
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict, TypeVar, overload

from typing_extensions import Unpack

from wfdash.asking.question import PeopleAnswer, question_of
from wfdash.client.calls import runs
from wfdash.client.client import AsyncClient, Client
from wfdash.client.errors import NotAllowed, NotAnswered, NotFound
from wfdash.client.script import Script
from wfdash.workflow import Approval, Choice, Decision, Policy
from wfdash.workflow.questions.card import Card, Given
from wfdash.workflow.questions.cards import prepare

T = TypeVar("T")
WORKFLOW = "ask_people"
FOREVER = float("inf")
MISSING = "{detail}. To ask people, an installation needs the workflow ask_people, and you the right to start it"


class Terms(TypedDict, total=False):
    """How a question is asked. ``by``, ``not_by``, ``due`` and ``policy`` as in ``ctx.ask``.

    ``ref``: your own name for the question. The same ref finds the same question again, after a restart or from another
    process; each person who asks has refs of their own. ``timeout``: seconds after which ``TimedOut`` is raised; the
    question stays open.
    """

    by: str | Sequence[str]
    not_by: str | Sequence[str]
    due: str | datetime | None
    policy: Policy | None
    ref: str | None
    timeout: float | None


@overload
async def ask(
    card: Approval, answer: None = None, *, client: AsyncClient | None = None, **terms: Unpack[Terms]
) -> Decision: ...
@overload
async def ask(
    card: str, answer: type[Approval], *, client: AsyncClient | None = None, **terms: Unpack[Terms]
) -> Decision: ...
@overload
async def ask(
    card: str, answer: list[str] | None = None, *, client: AsyncClient | None = None, **terms: Unpack[Terms]
) -> str: ...
@overload
async def ask(card: Card | str, answer: type[T], *, client: AsyncClient | None = None, **terms: Unpack[Terms]) -> T: ...
@overload
async def ask(
    card: Card, answer: dict[str, Any] | None = None, *, client: AsyncClient | None = None, **terms: Unpack[Terms]
) -> Any: ...
async def ask(card: Any, answer: Any = None, *, client: AsyncClient | None = None, **terms: Unpack[Terms]) -> Any:
    """Ask people through wfdash, wait for their answer, and return it typed.

    ``card``: a card as in ``ctx.ask``, or its subject; then ``answer`` says more: ``Approval`` for approve or reject, a
    list to choose from, a type. A text alone is answered with text. Survives restarts of the server, and with ``ref``
    of this program. ``NotAnswered`` if the question ended without an answer, ``TimedOut`` after ``timeout``.
    """
    if client is not None:
        return await client.perform(asked(card, answer, **terms))
    async with AsyncClient() as own:
        return await own.perform(asked(card, answer, **terms))


@overload
def ask_sync(
    card: Approval, answer: None = None, *, client: Client | None = None, **terms: Unpack[Terms]
) -> Decision: ...
@overload
def ask_sync(
    card: str, answer: type[Approval], *, client: Client | None = None, **terms: Unpack[Terms]
) -> Decision: ...
@overload
def ask_sync(
    card: str, answer: list[str] | None = None, *, client: Client | None = None, **terms: Unpack[Terms]
) -> str: ...
@overload
def ask_sync(card: Card | str, answer: type[T], *, client: Client | None = None, **terms: Unpack[Terms]) -> T: ...
@overload
def ask_sync(
    card: Card, answer: dict[str, Any] | None = None, *, client: Client | None = None, **terms: Unpack[Terms]
) -> Any: ...
def ask_sync(card: Any, answer: Any = None, *, client: Client | None = None, **terms: Unpack[Terms]) -> Any:
    """Do the same as ``ask``, and block until the answer is there."""
    if client is not None:
        return client.perform(asked(card, answer, **terms))
    with Client() as own:
        return own.perform(asked(card, answer, **terms))


def asked(
    card: Any, answer: Any = None, *, ref: str | None = None, timeout: float | None = None, **terms: Any
) -> Script[Any]:
    """Open the question unless it is known by its ref, wait, and return the answer."""
    card, answer = _card(card, answer)
    key = f"ask:{ref}" if ref else None
    question = question_of(card, answer, **terms)
    try:
        run = yield from runs.start(WORKFLOW, question, key=key, patience=FOREVER if timeout is None else timeout)
    except (NotFound, NotAllowed) as error:
        error.detail = MISSING.format(detail=error.detail.rstrip("."))
        raise
    ended = yield from runs.wait(run.id, timeout=timeout)
    if ended.status != "completed":
        raise NotAnswered(_why(ended.status, ended.error, ended.id), run=ended.id, status=ended.status)
    return _read(card, answer, PeopleAnswer.model_validate(ended.output or {}))


def _card(card: Any, answer: Any) -> tuple[Any, Any]:
    """Return card and answer, for a subject with what it may be answered with."""
    if isinstance(card, str) and isinstance(answer, type) and issubclass(answer, Approval):
        return answer(subject=card), None
    if isinstance(card, str) and isinstance(answer, list):
        return Choice(subject=card, options=answer), None
    return card, answer


def _why(status: str, error: dict[str, Any] | None, run: str) -> str:
    reason = str((error or {}).get("message") or "")
    return f"The question ended without an answer: its run {run} is {status}" + (f" ({reason})" if reason else "")


def _read(card: Any, answer: Any, given: PeopleAnswer) -> Any:
    value = prepare(card, answer).read(given.value, None)
    if isinstance(value, Given):
        return value.model_copy(update={"by": given.by, "at": given.at, "lapsed": given.lapsed})
    return value
