"""wfdash from other programs, over HTTP. Needs neither Django nor a database.

```python
from wfdash.client import Client

with Client("https://wfdash.example", token) as client:
    run = client.start("refund", {"order": "A-17", "amount": 120})
    done = client.wait(run.id)
    print(done.status, done.output)
```
"""

from __future__ import annotations

from wfdash.client.callbacks import CallbackDelivery, new_callback_secret, verify_callback
from wfdash.client.client import AsyncClient, Client, ask, ask_sync
from wfdash.client.errors import (
    AlreadyAnswered,
    AlreadyFollowed,
    ApiError,
    BadRequest,
    BadSignature,
    BadToken,
    Busy,
    Changed,
    ClaimLost,
    ClientError,
    CodeElsewhere,
    ConditionMissing,
    Conflict,
    Damaged,
    Incompatible,
    Invalid,
    KeyReused,
    LinkUsed,
    NoLongerOpen,
    NotAllowed,
    NotAnswered,
    NotFound,
    Outdated,
    ServerError,
    TimedOut,
    TooManyTries,
    TooOften,
    Unauthorized,
    Unavailable,
    Unreachable,
    Unsupported,
    WrongState,
)
from wfdash.records.runs import Callback
from wfdash.workflow import Approval, Choice, Decision, Form, Option, Policy, Question

__all__ = [
    "AlreadyAnswered",
    "AlreadyFollowed",
    "ApiError",
    "Approval",
    "AsyncClient",
    "BadRequest",
    "BadSignature",
    "BadToken",
    "Busy",
    "Callback",
    "CallbackDelivery",
    "Changed",
    "Choice",
    "ClaimLost",
    "Client",
    "ClientError",
    "CodeElsewhere",
    "ConditionMissing",
    "Conflict",
    "Damaged",
    "Decision",
    "Form",
    "Incompatible",
    "Invalid",
    "KeyReused",
    "LinkUsed",
    "NoLongerOpen",
    "NotAllowed",
    "NotAnswered",
    "NotFound",
    "Option",
    "Outdated",
    "Policy",
    "Question",
    "ServerError",
    "TimedOut",
    "TooManyTries",
    "TooOften",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "Unsupported",
    "WrongState",
    "ask",
    "ask_sync",
    "new_callback_secret",
    "verify_callback",
]
