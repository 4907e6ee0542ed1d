"""The project's pages, and the dashboard with its sockets and worker where its addresses are included."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.embedding.settings")

from wfdash.asgi import with_dashboard

application = with_dashboard(get_asgi_application())
