"""What workers have published of their workflows, for a server that has not loaded them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from threading import Event, Thread

from django.db import connections
from django.db.models import TextField
from django.db.models.functions import Cast, Length
from django.utils import timezone

from checkpoints.models import PublishedWorkflow
from wfdash import catalog
from wfdash.consulting.ask import WorkerConsult
from wfdash.engines.published import LARGEST, UNSERVED, Published, read_document

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
MOST = 1_000
"""Workflows that are read; more are no installation's."""


class PublishedReader:
    """Keeps the catalogue of this process as workers describe their workflows, read every few seconds."""

    def __init__(self) -> None:
        self._rows: Mapping[str, tuple[str, bool]] = {}
        """Workflow -> the hash of its document, and whether a worker had it within ``UNSERVED``."""
        self._known: Mapping[str, Published] = {}
        """Workflow -> what its document says, if that can be used."""
        self._consult = WorkerConsult()
        self._closing = Event()
        self._thread = Thread(target=self._follow, name="wfdash-published", daemon=True)

    def start(self) -> None:
        """Read once, and from then on in a thread of its own."""
        self._try()
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._thread.join()

    def read(self) -> None:
        """Read what has changed since the last time (one small query, and one if anything has), and serve it."""
        found = PublishedWorkflow.objects.order_by("-seen").values_list("workflow", "hash", "seen")[:MOST]
        since = timezone.now() - UNSERVED
        rows = {name: (digest, seen >= since) for name, digest, seen in found}
        if rows == self._rows:
            return
        changed = {name for name, (digest, _) in rows.items() if self._rows.get(name, ("",))[0] != digest}
        kept = {name: one for name, one in self._known.items() if name in rows and name not in changed}
        self._known, self._rows = kept | _documents(changed), rows
        served = [self._known[name] for name, (_, alive) in rows.items() if alive and name in self._known]
        secrets = {name: frozenset(one.secrets) for name, one in self._known.items()}
        catalog.use_published(served, secrets, self._consult)

    def _follow(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            self._try()
        connections.close_all()

    def _try(self) -> None:
        try:
            self.read()
        except Exception:
            log.exception("Could not read what workers have published; retrying")
            connections.close_all()


def published_secrets(workflow: str) -> frozenset[str]:
    """Return the names of a workflow's secret fields as a worker has published them, none where none has (one query):
    for a process without a reader that has not loaded it.
    """
    found = _documents([workflow]).get(workflow)
    return frozenset(found.secrets if found else ())


def _documents(names: Iterable[str]) -> dict[str, Published]:
    """Return workflow -> what is published of it; without what is too large or no worker's (one query)."""
    sized = PublishedWorkflow.objects.annotate(size=Length(Cast("document", TextField())))
    found = {}
    # PostgreSQL returns JSON with spaces in it.
    for row in sized.filter(workflow__in=names, size__lte=2 * LARGEST):
        try:
            said = read_document(row.document)
        except ValueError as error:
            log.error("What is published of workflow %s is left out: %s", row.workflow, error)
            continue
        if said.description is None or said.description.workflow == row.workflow:
            found[row.workflow] = said
    return found
