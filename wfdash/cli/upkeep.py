"""``wfdash signin|verify|backup|check|completion``: what looks after an installation and its workflow files."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sqlite3
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from wfdash.cli.commands import Add, argument, data_directory, flag, plain_command, print_error
from wfdash.cli.setup import setup
from wfdash.installation import location, workflow_sources

DATABASE = "wfdash.sqlite3"
KEYS = ("secret_key", "push_key")
WITH_POSTGRES = (
    "Runs are on PostgreSQL, which makes its own backups: pg_dump -Fc, or archived WAL (docs/backup.md). "
    "Keep the secret key, the audit's key and keys of encrypted content with them"
)
ELSEWHERE = {
    "WFDASH_SECRET_KEY": "without it everyone signs in again, links in mails end and waiting runs of Agent Framework "
    "are refused",
    "WFDASH_AUDIT_KEY": "without it nothing proves the audit",
    "WFDASH_ENCRYPTION_KEYS": "without them no content can be read",
    "WFDASH_PUSH_KEY": "without it browsers must turn push notifications on again",
}


def _signin(options: Namespace) -> int:
    return _manage("signin", f"--base={options.base}", "--", options.user)


def _verify_receipt(receipt: Any, trusted: str) -> int:
    """Check a receipt by itself: no server, database or key of an installation is asked.

    ``trusted``: see ``trusted_keys``.
    """
    from wfdash.domain.hash_chain import card_differs
    from wfdash.domain.labels import visible
    from wfdash.domain.receipts import flaw_of, key_name, trusted_keys

    if flaw := flaw_of(receipt):
        return print_error(f"The receipt does not hold: {flaw}", 1)
    said, key = receipt["statement"], key_name(receipt["public_key"])
    if "shown" in receipt and card_differs(receipt["shown"], said.get("card")):
        return print_error("The receipt does not hold: the card is not the one that was signed for", 1)
    facts = {name: said.get(name) for name in ("person", "for", "stands", "answer", "reason", "meaning")}
    facts |= {name: said.get(name) for name in ("request", "run", "workflow", "host", "at", "counter", "card")}
    print("\n".join(f"{name}: {visible(str(value))}" for name, value in {**facts, "key": key}.items() if value))
    names = trusted_keys(trusted)
    if key not in names:
        return print_error("The signature holds. Nothing here says whose the key is: name its fingerprint by --key", 2)
    if names[key] and names[key] != [said["person"]]:
        return print_error(f"The key belongs to {names[key][0]}, and not to {visible(str(said['person']))}", 1)
    print(f"The receipt holds{'' if 'shown' in receipt else '; the card is not in it'}")
    return 0


def _verify(options: Namespace) -> int:
    """Verify the audit of the database, or packs: those need no data where their key is given, or none is needed."""
    from wfdash.domain.hash_chain import document_in

    file = Path(options.key)
    trusted = file.read_text() if file.is_file() else options.key
    if len(options.packs) == 1 and (receipt := document_in(Path(options.packs[0]).open, "wfdash-receipt/")):
        return _verify_receipt(receipt, trusted)
    missing = location.missing_data(os.environ)
    keyed = options.without_key or "WFDASH_AUDIT_KEY" in os.environ
    if missing and not (options.packs and keyed):
        more = ", or check exported packs with --without-key" if options.packs else ""
        return print_error(missing + more)
    flags = [f"--key={trusted}", f"--head={options.head}", f"--from={options.start}"]
    flags += ["--without-key"] * options.without_key + [f"--anchor={options.anchor}"] * bool(options.anchor)
    with location.no_data() if missing else nullcontext():
        return _manage("verify", *flags, *options.packs)


def _manage(name: str, *arguments: str) -> int:
    """Run one of Django's commands, and return its exit status."""
    setup()
    from django.core.management import CommandError, call_command

    try:
        call_command(name, *arguments)
    except CommandError as error:
        return print_error(str(error), error.returncode)
    return 0


def _backup(options: Namespace) -> int:
    """Return 0 once the folder is there: it appears when it is whole."""
    if os.environ.get("WFDASH_DATABASE"):
        return print_error(WITH_POSTGRES)
    if options.folder.exists():
        return print_error(f"{options.folder} exists: name a new folder for each backup")
    partial = options.folder.with_name(f"{options.folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700, parents=True)
        copied = copy_data(location.data_dir(os.environ), partial)
        partial.rename(options.folder)
    except (OSError, sqlite3.Error) as error:
        shutil.rmtree(partial, ignore_errors=True)
        return print_error(f"No backup was made: {error}. Is {options.folder.parent} writable, and is there room?")
    print(f"Saved in {options.folder}: {', '.join(copied)}")
    for name, without in ELSEWHERE.items():
        if os.environ.get(name):
            print(f"Not in it, keep it elsewhere: {name} ({without})")
    return 0


def copy_data(data: Path, folder: Path) -> list[str]:
    """Copy the database as it is at one moment, check the copy, and copy the keys; return the names of the files.

    Commits continue during it. ``sqlite3.Error`` if the copy is not whole; ``OSError``.
    """
    made = folder / DATABASE
    os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(f"file:{(data / DATABASE).resolve()}?mode=ro", uri=True, timeout=20)) as source:
        source.execute("VACUUM INTO ?", (str(made),))
    with closing(sqlite3.connect(made)) as copy:
        ((found,),) = copy.execute("PRAGMA quick_check(1)").fetchall()
    if found != "ok":
        raise sqlite3.DatabaseError(f"the copy is damaged, and so is the database: {found}")
    keys = [name for name in KEYS if (data / name).is_file()]
    for name in keys:
        shutil.copyfile(data / name, folder / name)
        (folder / name).chmod(0o600)
    for name in (DATABASE, *keys):
        with (folder / name).open("rb") as file:
            os.fsync(file.fileno())
    return [DATABASE, *keys]


def _check(options: Namespace) -> int:
    """Load workflows as ``up`` would: return 0 if all is well, 1 if something is wrong, 2 without anything to check."""
    named = any(os.environ.get(name) for name in ("WFDASH_WORKFLOWS", "WFDASH_APPS"))
    if not options.sources and not named:
        return print_error("Say what to check: wfdash check workflows.py", 2)
    with location.no_data():
        setup()
        logging.disable(logging.CRITICAL)
        try:
            report = _report(options.sources)
        finally:
            logging.disable(logging.NOTSET)
    print(json.dumps(report, indent=2) if options.json else "\n".join(_report_lines(report)))
    return 1 if report["problems"] else 0


def _report(sources: list[str]) -> dict[str, Any]:
    from wfdash.contract import JudgesCode
    from wfdash.engines import catalog

    problems = [_problem(words, "") for words in (location.other_owners(),) if words]
    problems += [_problem(words, "") for name in sources if (words := workflow_sources.problem_of(name))]
    found = catalog.read([name for name in sources if not workflow_sources.problem_of(name)] if sources else None)
    workflows = [
        {
            "name": entry.name,
            "title": entry.description.title,
            "version": entry.description.version,
            "steps": len(entry.description.steps),
            "source": _near(entry.source),
        }
        for entry in found.entries.values()
    ]
    for failure in found.failures:
        flaws = failure.flaws or ((failure.error, failure.where),)
        problems += [_problem(words, where or failure.source) for words, where in flaws]
    notes = []
    for entry in found.entries.values():
        if isinstance(entry.engine, JudgesCode):
            problems += [_problem(*one) for one in entry.engine.code_flaws(entry.definition)]
            notes += [_problem(*one) for one in entry.engine.code_notes(entry.definition)]
    if not workflows and not problems:
        problems.append(_problem("No workflow found: a module needs a Workflow(...) under a name of its own", ""))
    return {"workflows": workflows, "problems": problems, "notes": notes}


def _problem(words: str, where: str) -> dict[str, Any]:
    file, _, line = where.rpartition(":")
    at = (file, int(line)) if line.isdigit() else (where, None)
    return {"file": _near(at[0]), "line": at[1], "message": words}


def _near(path: str) -> str:
    """Return a path as seen from the current folder, where it is below that."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if path and Path(path).is_relative_to(here) else path


def _report_lines(report: dict[str, Any]) -> Iterator[str]:
    for kind, mark in (("problems", ""), ("notes", "note: ")):
        for one in report[kind]:
            place = ":".join(str(part) for part in (one["file"], one["line"]) if part)
            yield f"{place}: {mark}{one['message']}" if place else one["message"]
    for flow in report["workflows"]:
        steps = f"{flow['steps']} step{'s' if flow['steps'] != 1 else ''}"
        yield f"{flow['source']}: {flow['name']} is valid, {steps}, version {flow['version']}"
    count = len(report["problems"])
    yield f"{count} problem{'s' if count != 1 else ''}" if count else "No problems"


SIGNIN = plain_command(
    "signin",
    "print a one-time sign-in link for a person",
    _signin,
    argument("user", "user name"),
    argument("--base", "address of the dashboard (default: the last known one)", default=""),
    data_directory,
)
VERIFY = plain_command(
    "verify",
    "verify the audit log, packs (parts of it that were exported), or a receipt",
    _verify,
    argument("packs", "a pack, or an older and a newer one to compare; a receipt", nargs="*", metavar="PACK.json"),
    argument("--anchor", "a file of 'wfdash audit anchor': each entry in it is still there", default=""),
    argument("--key", "of receipts: a trusted fingerprint, or a file of fingerprints and names", default=""),
    flag("--without-key", "check hashes and links of packs, no signatures"),
    argument("--head", "a chain head recorded elsewhere", default="", metavar="N:HASH"),
    argument("--from", "skip earlier entries", dest="start", default="0", metavar="N"),
    data_directory,
    needs_data=False,
)
BACKUP = plain_command(
    "backup",
    "copy the SQLite database and the keys of a data directory into a new folder, also while a server runs",
    _backup,
    argument("folder", "the folder to make", type=Path),
    data_directory,
)
CHECK = plain_command(
    "check",
    "load workflows and print what is wrong with them; serves nothing",
    _check,
    argument("sources", "files, folders or modules with workflows", nargs="*", metavar="SOURCE"),
    flag("--json", "print JSON for programs"),
    needs_data=False,
)


def completion(parser: Callable[[], argparse.ArgumentParser]) -> Add:
    """Return the command that prints the completion. ``parser`` gives the whole command line."""

    def show(options: Namespace) -> int:
        import shtab

        sys.stdout.write(shtab.complete(parser(), shell=options.name) + "\n")
        return 0

    return plain_command(
        "completion",
        "print the completion for bash or zsh",
        show,
        argument("name", choices=("bash", "zsh")),
        description='Print the completion for bash or zsh: eval "$(wfdash completion bash)".',
        uses_api=True,
        needs_data=False,
    )
