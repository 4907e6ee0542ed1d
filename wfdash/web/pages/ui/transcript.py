"""A conversation with a model, ready to be rendered: who said what, each call of a tool with its result. Pure.

It comes from a model and is not trusted to have any shape: a result without its call stands alone, a call without a
result says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from checkpoints.records import frozen
from wfdash.contract import Message, ToolUse
from wfdash.domain.json_patch import shared
from wfdash.domain.labels import visible
from wfdash.questions.tools import distinguishing, parsed, spoken
from wfdash.web.pages.ui.event_text import marked
from wfdash.web.pages.ui.json_value import pretty
from wfdash.web.pages.ui.markup import TextBlock, beginning, markdown_effort
from wfdash.web.pages.ui.markup import block as as_block
from wfdash.web.pages.ui.times import number

FOUND_AROUND = 80
"""Characters that are shown before a hit of a search, and a third of those after it."""
SHOWN_MESSAGES = 20
"""Messages that are shown at first, from the end."""
LONG_TEXT = 1_200
"""Characters of an earlier message from which on it is folded."""
LONG_LAST = 12_000
"""The same, of the last message."""
MOST_LINES = 16
MOST_EFFORT = 100_000
"""Microseconds that the messages shown together may take to be formatted, by ``markdown_effort``."""
WHO = {"system": "System prompt", "user": "User", "assistant": "Assistant", "tool": "Tool"}
ICONS = {"system": "cog-6-tooth", "user": "user", "assistant": "sparkles", "tool": "wrench"}


@frozen
class SaidCall:
    """A call of a tool. ``arguments`` is a value, or ``block`` where they are no object; ``result`` None: none yet."""

    name: str
    summary: str = ""
    arguments: Any = None
    block: TextBlock | None = None
    result: ToolResult | None = None

    @property
    def state(self) -> str:
        """Return what became of it: pending, failed or done."""
        return "pending" if self.result is None else "failed" if self.result.failed else "done"


@frozen
class ToolResult:
    """What a tool gave: a value where its text is JSON, else the text."""

    value: Any = None
    block: TextBlock | None = None
    failed: bool = False


@frozen
class Turn:
    """A message as it is drawn. ``number`` is its place in the whole conversation, from 1.

    ``markdown`` of an assistant, ``block`` of everyone else. ``beginning``: what is shown of a folded one.
    """

    number: int
    role: str
    who: str
    icon: str
    markdown: str = ""
    block: TextBlock | None = None
    beginning: str = ""
    size: int = 0
    calls: tuple[SaidCall, ...] = ()
    result: ToolResult | None = None
    model: str = ""
    tokens: str = ""
    at: datetime | None = None

    @property
    def folded(self) -> bool:
        """Return whether only its beginning is shown at first."""
        return bool(self.beginning)


@frozen
class Talk:
    """A part of a conversation. ``total`` messages in all, of which ``before`` and ``after`` these are left out."""

    turns: tuple[Turn, ...] = ()
    total: int = 0
    before: int = 0
    after: int = 0
    usage: str = ""
    plain: bool = False
    """Whether earlier messages are shown as text, because there is too much to format."""
    held: int = 0
    """The number of the first message that there is: those before it are left out everywhere."""

    @property
    def earlier(self) -> bool:
        """Return whether messages before these can be shown."""
        return self.before > self.held


@frozen
class TalkDiff:
    """Two conversations: ``shared`` messages are the same, then each continues in its own way."""

    shared: int = 0
    removed: Talk = field(default_factory=Talk)
    added: Talk = field(default_factory=Talk)


def draw_talk(
    messages: Sequence[Message], *, limit: int = SHOWN_MESSAGES, until: int | None = None, left_out: int = 0
) -> Talk:
    """Return the last ``limit`` messages up to number ``until``, each call with its result wherever that is.

    ``left_out``: how many messages came before the first one.
    """
    end = len(messages) if until is None else max(0, min(until - left_out, len(messages)))
    begin = max(0, end - limit)
    joined = _results(messages)
    effort = _Effort()
    turns = [
        _turn(messages[place], place, joined, effort, last=place + 1 == len(messages))
        for place in range(end - 1, begin - 1, -1)
        if place not in joined.taken
    ][::-1]
    return Talk(
        turns=tuple(replace(turn, number=turn.number + left_out) for turn in turns),
        total=len(messages) + left_out,
        before=begin + left_out,
        after=len(messages) - end,
        held=left_out,
        plain=effort.left < 0,
        usage=_usage(messages),
    )


@frozen
class FoundTurn:
    """A message that a search found, in parts, with whether each is a hit. ``number``: the turn that shows it."""

    number: int
    who: str
    icon: str
    parts: tuple[tuple[str, bool], ...]


def find_turns(messages: Sequence[Message], wanted: str) -> Iterator[FoundTurn]:
    """Yield the messages that have a text in what they say or in what they call a tool with, whatever its case."""
    shown_by = {id(message): place for (place, _), message in _results(messages).of.items()}
    pattern = re.compile(re.escape(wanted), re.IGNORECASE)
    for place, message in enumerate(messages):
        said = visible(spoken(message))
        if hit := pattern.search(said):
            begin, end = max(0, hit.start() - FOUND_AROUND), hit.end() + 3 * FOUND_AROUND
            words = f"{'…' * (begin > 0)}{said[begin:end]}{'…' * (end < len(said))}"
            number = shown_by.get(id(message), place) + 1
            yield FoundTurn(number=number, who=_who(message), icon=ICONS[message.role], parts=marked(words, wanted))


def diff_transcripts(before: Sequence[Message], after: Sequence[Message]) -> TalkDiff | None:
    """Return what two conversations do not share; None where they are the same."""
    same = shared(before, after)
    if same == len(before) == len(after):
        return None
    return TalkDiff(shared=same, removed=_rest(before, same), added=_rest(after, same))


def _rest(messages: Sequence[Message], shared: int) -> Talk:
    """Return what follows the shared part. A result stands alone there: its call is in that part."""
    talk = draw_talk(messages[shared:])
    turns = tuple(replace(turn, number=turn.number + shared) for turn in talk.turns)
    return replace(talk, turns=turns, usage="")


@dataclass(frozen=True)
class _Results:
    """``of``: place of a message and of a call in it -> the message with its result; ``taken``: the places of those."""

    of: Mapping[tuple[int, int], Message]
    taken: frozenset[int]


def _results(messages: Sequence[Message]) -> _Results:
    """Join results to calls: each to the last call with its id before it that has none yet."""
    waiting: dict[str, list[tuple[int, int]]] = {}
    found: dict[tuple[int, int], Message] = {}
    taken: set[int] = set()
    for place, message in enumerate(messages):
        for index, call in enumerate(message.calls):
            if call.id:
                waiting.setdefault(call.id, []).append((place, index))
        if message.role == "tool" and waiting.get(message.call):
            found[waiting[message.call].pop()] = message
            taken.add(place)
    return _Results(found, frozenset(taken))


class _Effort:
    """What is left of the work that a page of messages may take; below zero once something was too much."""

    def __init__(self) -> None:
        self.left = MOST_EFFORT

    def affords(self, text: str) -> bool:
        """Return whether a text, Markdown or JSON, is to be formatted; texts that follow one that is not are not."""
        self.left -= markdown_effort(text) if self.left >= 0 else 0
        return self.left >= 0


def _turn(message: Message, place: int, results: _Results, effort: _Effort, *, last: bool) -> Turn:
    size, lines = len(message.text), message.text.count("\n")
    folded = message.role == "system" or size > (LONG_LAST if last else LONG_TEXT) or (lines > MOST_LINES and not last)
    folded = folded and message.role != "tool"
    spoken = message.role == "assistant" and effort.affords(message.text)
    return Turn(
        number=place + 1,
        role=message.role,
        who=_who(message),
        icon=ICONS[message.role],
        markdown=message.text if spoken else "",
        block=None if spoken or message.role == "tool" or not message.text else as_block(message.text),
        beginning=beginning(message.text) if folded and message.text.strip() else "",
        size=size,
        calls=tuple(_call(call, results.of.get((place, index)), effort) for index, call in enumerate(message.calls)),
        result=_result(message, effort) if message.role == "tool" else None,
        model=visible(message.model),
        tokens=_tokens(message.input_tokens, message.output_tokens),
        at=message.at,
    )


def _who(message: Message) -> str:
    name = visible(message.name or "")
    return f"Result of {name}" if message.role == "tool" and name else name or WHO[message.role]


def _call(call: ToolUse, result: Message | None, effort: _Effort) -> SaidCall:
    arguments = parsed(call.arguments)
    summary = visible(distinguishing(arguments)) if isinstance(arguments, Mapping) else ""
    if arguments and not isinstance(arguments, str) and not effort.affords(text := pretty(arguments)):
        arguments = text
    return SaidCall(
        name=visible(call.name),
        summary=summary,
        arguments=None if isinstance(arguments, str) else arguments,
        block=as_block(arguments) if isinstance(arguments, str) and arguments else None,
        result=None if result is None else _result(result, effort),
    )


def _result(message: Message, effort: _Effort) -> ToolResult:
    value = parsed(message.text) if effort.affords(message.text) else message.text
    if isinstance(value, (Mapping, list)):
        return ToolResult(value=value, failed=message.failed)
    return ToolResult(block=as_block(message.text), failed=message.failed)


def _usage(messages: Sequence[Message]) -> str:
    """Return the tokens of all messages together; empty where none is known."""
    given = [one.input_tokens for one in messages if one.input_tokens is not None]
    made = [one.output_tokens for one in messages if one.output_tokens is not None]
    return _tokens(sum(given) if given else None, sum(made) if made else None)


def _tokens(given: int | None, made: int | None) -> str:
    parts = [f"{number(tokens)} {name}" for tokens, name in ((given, "in"), (made, "out")) if tokens]
    return f"{', '.join(parts)} tokens" if parts else ""
