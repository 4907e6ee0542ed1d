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

from wfdash.client.asking import ask, ask_sync
from wfdash.client.client import AsyncClient, Client
from wfdash.client.errors import (
    AlreadyAnswered,
    ApiError,
    Busy,
    Changed,
    ClientError,
    Conflict,
    Invalid,
    KeyReused,
    NoLongerOpen,
    NotAllowed,
    NotAnswered,
    NotFound,
    ServerError,
    TimedOut,
    TooOften,
    Unauthorized,
    Unreachable,
    WrongState,
)
from wfdash.workflow import Approval, Choice, Decision, Form, Option, Policy, Question

__all__ = [
    "AlreadyAnswered",
    "ApiError",
    "Approval",
    "AsyncClient",
    "Busy",
    "Changed",
    "Choice",
    "Client",
    "ClientError",
    "Conflict",
    "Decision",
    "Form",
    "Invalid",
    "KeyReused",
    "NoLongerOpen",
    "NotAllowed",
    "NotAnswered",
    "NotFound",
    "Option",
    "Policy",
    "Question",
    "ServerError",
    "TimedOut",
    "TooOften",
    "Unauthorized",
    "Unreachable",
    "WrongState",
    "ask",
    "ask_sync",
]
