"""What a card shows beside its text, for authors: the parts of ``evidence=[...]``."""

from __future__ import annotations

from wfdash.contract import Message, ToolUse
from wfdash.questions.evidence import (
    Code,
    Diff,
    Evidence,
    File,
    Image,
    JsonValue,
    Link,
    Markdown,
    Pdf,
    Table,
    Text,
    Transcript,
)

__all__ = [
    "Code",
    "Diff",
    "Evidence",
    "File",
    "Image",
    "JsonValue",
    "Link",
    "Markdown",
    "Message",
    "Pdf",
    "Table",
    "Text",
    "ToolUse",
    "Transcript",
]
