"""A real daphne with the live sockets, one page that uses live.js, and a writer thread that obeys standard input.

``python -m tests.live.served PORT``; the database is in ``WFDASH_DATA``, migrated, and survives. First line out: JSON
with the newest run and two cookies. Lines in: JSON ``{"events": n, "every": seconds, "bell": bool, "each":
n, "size": n}``, ``{"text":
"..."}``, ``{"end": true}`` or ``{"renew": true}``, which is answered by such a first line, with a new run; after
every commit a line ``seq monotonic-seconds`` comes out.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import daphne.server  # isort: skip  # noqa: F401 (installs the reactor)
import django
from channels.routing import ProtocolTypeRouter, URLRouter

from wfdash.cli.server import bound_requests

STATIC = Path(__file__).resolve().parents[2] / "static" / "js"
PAGE = """<!doctype html><title>live</title><body data-live="/live/runs/{run}/" data-after="{after}">
<span data-live-state="off"><span data-live-words></span></span><ol data-live-events>{rows}</ol>
<div data-live-stream hidden></div><script type="module" src="/static/js/live/live.js"></script>"""


def row(event: Any, *, inspect: bool) -> str:
    return f'<li data-seq="{event.seq}">{event.kind}</li>'


def page(run: str) -> str:
    from checkpoints.models import Event

    events = list(Event.objects.filter(run_id=run).order_by("seq"))
    rows = "".join(row(event, inspect=True) for event in events)
    return PAGE.format(run=run, after=events[-1].seq if events else 0, rows=rows)


async def serve_http(scope: Any, receive: Any, send: Any) -> None:
    from asgiref.sync import sync_to_async

    name = scope["path"].rpartition("/")[2]
    script = scope["path"].startswith("/static/")
    body = (
        (STATIC / scope["path"].removeprefix("/static/js/")).read_text() if script else await sync_to_async(page)(name)
    )
    kind = b"text/javascript" if script else b"text/html"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body.encode()})


def prepare(renew: bool = False) -> dict[str, str]:
    from checkpoints.models import Run
    from tests.live import world

    newest = None if renew else Run.objects.order_by("-id").values_list("id", flat=True).first()
    run = newest or world.make_run()
    viewer, stranger = world.make_person("vera", "viewer", "expense"), world.make_person("sam", "viewer", "other")
    return {"run": run, "cookie": world.sign_in(viewer), "stranger": world.sign_in(stranger)}


def obey(run: str) -> None:
    from tests.live.world import append_events, end_run
    from wfdash import pubsub

    for line in sys.stdin:
        order = json.loads(line)
        if "renew" in order:
            facts = prepare(renew=True)
            run = facts["run"]
            print(json.dumps(facts), flush=True)
        if "text" in order:
            pubsub.streamed_text.add(run, "write", order["text"])
        if "end" in order:
            end_run(run)
        for _ in range(order.get("events", 0)):
            seq = append_events(run, order.get("each", 1), data={"text": "x" * order.get("size", 0)})
            print(seq, time.monotonic(), flush=True)
            if order.get("bell", True):
                pubsub.runs_changed.publish(run, seq)
            time.sleep(order.get("every", 0))


def main() -> None:
    django.setup()
    from wfdash.cli.server import Server
    from wfdash.web.http import PagesHandler
    from wfdash.web.live.hub import use_renderer
    from wfdash.web.live.sockets import websocket_urlpatterns

    facts = prepare()
    use_renderer(row)
    bound_requests(1_000_000, 60)
    pages = PagesHandler()

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await (pages if scope["path"].startswith("/api/") else serve_http)(scope, receive, send)

    application = ProtocolTypeRouter({"http": serve, "websocket": URLRouter(websocket_urlpatterns)})
    Thread(target=obey, args=[facts["run"]], daemon=True).start()
    endpoint = f"tcp:{sys.argv[1]}:interface=127.0.0.1"
    ready = {"ready_callable": lambda: print(json.dumps(facts), flush=True)}
    # A viewer that does not read is hung up on after half a minute: on a busy machine a test's takes longer.
    Server(application, endpoints=[endpoint], ping_interval=600, ping_timeout=600, **ready).run()


if __name__ == "__main__":
    main()
