"""``manage.py runserver``: the development server, with the worker beside it and reloading on change."""

from __future__ import annotations

import os
from typing import Any

from daphne.management.commands.runserver import Command as DaphneRunserver
from django.conf import settings
from django.core.management.base import CommandError

from wfdash.installation.environment import refusal_text, refusals
from wfdash.worker.process import start_worker, stop_worker


class Command(DaphneRunserver):
    """daphne's runserver that also runs workflows, unless another process already does."""

    addr: str

    def inner_run(self, *args: Any, **options: Any) -> None:
        """Serve; called again in a new process after each reload."""
        # Else its project answers for who may reach it.
        own = settings.ROOT_URLCONF == "wfdash.web.pages.site.project_urls"
        if own and (found := refusals(host=self.addr, demo=False, env=os.environ)):
            raise CommandError(refusal_text(found, self.addr))
        start_worker()
        try:
            super().inner_run(*args, **options)  # type: ignore[no-untyped-call]
        finally:
            stop_worker()
