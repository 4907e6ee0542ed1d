"""``ask`` and ``ask_sync``: a question to people from any Python program, in three lines.

```python
from wfdash.client import Approval, ask

decision = await ask("Ship version 2.4?", Approval, by="release", due="4h", ref="ship-2.4")
```
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from typing_extensions import Unpack

from wfdash.client.calls.questions import Terms, asked
from wfdash.client.client import AsyncClient, Client
from wfdash.questions.card import Card
from wfdash.workflow import Approval, Decision

T = TypeVar("T")


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
