"""What a card shows beside its text, for authors: the parts of ``evidence=[...]``."""

from __future__ import annotations

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
from wfdash.questions.tools import Message, ToolUse

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
