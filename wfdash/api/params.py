"""Parameters that several operations take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Limit = Annotated[int, Field(ge=1, le=1000)]
Seq = Annotated[int, Field(ge=0, lt=2**63)]
