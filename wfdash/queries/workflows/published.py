"""What workers have published of their workflows, for a server that has not loaded them."""

from __future__ import annotations

import logging
from threading import Event, Thread

from django.db import connections
from django.db.models import TextField
from django.db.models.functions import Cast, Length

from checkpoints.models import PublishedWorkflow
from wfdash import catalog
from wfdash.engines.published import LARGEST, Published, read_document

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
MOST = 1_000
"""Workflows that are read; more are no installation's."""


class PublishedReader:
    """Keeps the catalogue of this process as workers describe their workflows, read every few seconds."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Published | None]] = {}
        """Workflow -> the hash of its document, and what that says; None where it cannot be used."""
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
        hashes = dict(PublishedWorkflow.objects.order_by("workflow").values_list("workflow", "hash")[:MOST])
        changed = [name for name, one in hashes.items() if self._known.get(name, ("",))[0] != one]
        if not changed and hashes.keys() == self._known.keys():
            return
        fresh = _documents(changed)
        for name in changed:
            self._known[name] = hashes[name], fresh.get(name)
        self._known = {name: self._known[name] for name in hashes}
        catalog.use_published(one for _, one in self._known.values() if one is not None)

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


def _documents(names: list[str]) -> dict[str, Published]:
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
        if said.description.workflow == row.workflow:
            found[row.workflow] = said
    return found
