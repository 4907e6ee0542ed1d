"""The transcript of a conversation with a model: who said what, and which tools were called. Pure."""

from __future__ import annotations

from wfdash.contract.shown import Message as Message
from wfdash.contract.shown import ToolUse as ToolUse
from wfdash.contract.shown import pack_transcript as pack_transcript
from wfdash.contract.shown import unpack_transcript as unpack_transcript

__all__ = ["Message", "ToolUse", "pack_transcript", "unpack_transcript"]
