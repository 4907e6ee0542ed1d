"""The lists of the documentation that follow from the code: commands, filters, events, settings, hosts, verbs.

A page has one of the marks of ``LISTS`` where its list belongs. Django is set up before one of them is made.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wfdash.queries.search import ListFilter

SHARED = {"help", "json", "url", "token", "data", "person"}
"""Options of every command: the page says them once."""


def commands() -> str:
    """Return every command that acts through the API, with what it takes and does."""
    from wfdash import cli

    found = [(name, parser) for name, parser in parsers(cli._parser()) if parser.get_default("uses_api")]
    rows = [f"| `{name}{_arguments(parser)}` | {_first_sentence(parser)} |" for name, parser in found]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def parsers(parser: argparse.ArgumentParser, name: str = "wfdash") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command with its whole name."""
    families = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not families:
        yield name, parser
    for family in families:
        for verb, below in family.choices.items():
            yield from parsers(below, f"{name} {verb}")


def _arguments(parser: argparse.ArgumentParser) -> str:
    own = [action for action in parser._actions if action.dest not in SHARED]
    return "".join(f" {_shown(action)}" for action in sorted(own, key=lambda action: bool(action.option_strings)))


def _shown(action: argparse.Action) -> str:
    """Return one argument as a usage line has it, without characters that end a cell."""
    value: Any = action.metavar or (",".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if action.option_strings:
        return f"[{action.option_strings[-1]}{'' if action.nargs == 0 else f' {value}'}]"
    return {"?": f"[{value}]", "*": f"[{value} ...]"}.get(str(action.nargs), str(value))


def _first_sentence(parser: argparse.ArgumentParser) -> str:
    return str(parser.description).split(":", 1)[0].rstrip(".")


def kinds() -> str:
    """Return every kind of event, with its sentence, its fields and what it is."""
    from checkpoints.events import EventKind

    lines = []
    for kind in EventKind:
        traits = ", ".join(trait.name.lower() for trait in kind.traits if trait.name).replace("unstored", "not stored")
        fields = ", ".join(f"`{name}`" for name in sorted(kind.fields))
        lines.append(f"- `{kind}`: *{kind.text}*" + f" {fields}" * bool(fields) + f" ({traits})" * bool(traits))
    return "\n".join(lines)


def filters() -> str:
    """Return the keys of every list, a section each."""
    from wfdash.queries.audit import FILTER as AUDIT
    from wfdash.queries.requests.decisions import FILTER as DECISIONS
    from wfdash.queries.requests.inbox import FILTER as INBOX
    from wfdash.queries.runs.filter_keys import FILTER as RUNS
    from wfdash.queries.schedules import FILTER as SCHEDULES
    from wfdash.queries.workflows import FILTER as CATALOGUE

    lists: dict[str, ListFilter[Any, Any]] = {
        "Inbox": INBOX,
        "Decisions": DECISIONS,
        "Runs": RUNS,
        "Audit log": AUDIT,
        "Schedules": SCHEDULES,
        "Catalogue": CATALOGUE,
    }
    return "\n".join(_section(title, known) for title, known in lists.items())


def settings() -> str:
    """Return every setting but those to start with, a section for each group."""
    from wfdash.installation.environment import SETTINGS

    groups = list(SETTINGS)[1:]
    return "\n".join(line for group in groups for line in [f"## {group}\n", *setting_rows(group), ""])


def setting_rows(group: str) -> list[str]:
    """Return the table of one group of settings."""
    from wfdash.installation.environment import SETTINGS

    lines = ["| variable | meaning | default |", "|---|---|---|"]
    for name, row in SETTINGS[group].items():
        default = row.get("default", "")
        shown = row.get("shown") or (f"`{default}`" if default else "none")
        lines.append(f"| `{name}` | {row['says']} | {shown} |")
    return lines


def hosts() -> str:
    """Return the lines that connect an agent, a section for each host."""
    from wfdash.web.pages.account.connect import HOSTS, PLACE

    lines = {one: one.lines.format(url="https://wfdash.example/", token=PLACE) for one in HOSTS}
    return "\n".join(
        f"## {one.name}\n\n{one.about}\n\n```text\n{text}\n```\n\n[More]({one.page}.md)\n"
        for one, text in lines.items()
    )


def verbs() -> str:
    """Return every verb of the audit, as pages say it."""
    from wfdash.web.pages.audit import TEXTS

    return "\n".join(f"- `{verb}`: {text}" for verb, text in TEXTS.items())


def _section(title: str, known: ListFilter[Any, Any]) -> str:
    rows = [(one.example, one.meaning, one.values + one.only) for one in known.qualifiers]
    rows.append(('"blue chair"', known.words, ()))
    lines = [f"- `{example}`: {_plain(meaning)}{_suggested(values)}" for example, meaning, values in rows]
    return "\n".join([f"## {title}\n", *lines, ""])


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return text.replace("<", "&lt;").replace("*", "\\*")


def _suggested(values: tuple[str, ...]) -> str:
    return f" ({', '.join(f'`{value}`' for value in values)})" if values else ""


LISTS: dict[str, Callable[[], str]] = {
    "<!-- commands -->": commands,
    "<!-- kinds -->": kinds,
    "<!-- filters -->": filters,
    "<!-- settings -->": settings,
    "<!-- hosts -->": hosts,
    "<!-- verbs -->": verbs,
}
"""The list that takes the place of each mark."""
