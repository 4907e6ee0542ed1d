"""Callbacks: deliveries that wfdash signs and sends, checked and read by the program that receives them. Pure.

```python
from wfdash.client import Approval, verify_callback

delivery = verify_callback(request.headers, request.body, secret)
if delivery.type == "run.completed":
    decision = delivery.answer(Approval)
```
"""

from __future__ import annotations

import builtins
import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, overload

from checkpoints.events import EventKind
from checkpoints.records import frozen
from wfdash.client.calls.runs import card_of, read_answer
from wfdash.client.errors import BadSignature, ClientError, NotAnswered
from wfdash.domain.hooks import Received, Unsigned, check_signature, new_secret, secret_problem
from wfdash.questions.card import Card
from wfdash.workflow import Approval, Decision
from wfdash.workflow.asking import PeopleAnswer

T = TypeVar("T")
ENDS = {EventKind.RUN_FAILED.value: "failed", EventKind.RUN_CANCELLED.value: "cancelled"}


@frozen
class CallbackDelivery:
    """What a callback or webhook says, once its signature was checked.

    ``id`` is the same at every attempt: who keeps it drops doubles. ``data``: as docs/webhooks.md lists it by ``type``.
    """

    id: str
    type: str
    timestamp: datetime
    data: dict[str, Any]

    @property
    def run(self) -> str:
        """The id of the run that it is about; empty where it is about none."""
        return str(self.data.get("run") or "")

    @overload
    def answer(self, of: Approval | builtins.type[Approval]) -> Decision: ...
    @overload
    def answer(self, of: builtins.type[T]) -> T: ...
    @overload
    def answer(self, of: list[str] | None = None) -> str: ...
    @overload
    def answer(self, of: Card) -> Any: ...
    def answer(self, of: Any = None) -> Any:
        """Return the answer to a question that was asked with ``ask`` or ``open_question``, typed as ``ask`` does.

        ``of``: the card or what else the question was asked with. ``NotAnswered`` if it ended without an answer.
        """
        if (status := ENDS.get(self.type)) is not None:
            raise NotAnswered(
                f"The question ended without an answer: run {self.run} {status}", run=self.run, status=status
            )
        if self.type != EventKind.RUN_COMPLETED or "output" not in self.data:
            why = "the answer is too long for a delivery" if self.data.get("omitted") else f"this is {self.type}"
            raise ClientError(f"There is no answer in this delivery: {why}. Read run {self.run}")
        card, answer = (of, None) if isinstance(of, Card) else card_of("answer", of)
        return read_answer(card, answer, PeopleAnswer.model_validate(self.data["output"]))


def new_callback_secret() -> str:
    """Return a new secret for a callback. Keep it: every delivery is signed with it."""
    return new_secret()


def verify_callback(
    headers: Mapping[str, str], body: bytes, secret: str | Sequence[str], *, now: float | None = None
) -> CallbackDelivery:
    """Return a delivery that is signed with the secret; ``BadSignature`` for any other. Takes constant time.

    ``body``: the bytes as they came, not JSON that was read and written. ``secret``: several while one is rotated.
    ``now``: seconds since 1970, by default this machine's; the time of the signature differs from it by 5 minutes at
    most. ``ValueError`` for a secret that is none.
    """
    known = [secret] if isinstance(secret, str) else list(secret)
    if problem := next((why for one in known if (why := secret_problem("standard", one))), ""):
        raise ValueError(problem)
    received = Received(headers={name.lower(): value for name, value in headers.items()}, body=body)
    try:
        message = check_signature("standard", received, known, "", time.time() if now is None else now)
    except Unsigned as error:
        raise BadSignature(str(error)) from error
    return _read(message, body)


def _read(message: str, body: bytes) -> CallbackDelivery:
    try:
        found = json.loads(body)
        stamp = datetime.fromisoformat(found["timestamp"])
        return CallbackDelivery(id=message, type=str(found["type"]), timestamp=stamp, data=dict(found["data"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ClientError("The delivery is signed, but it is none of wfdash") from error
