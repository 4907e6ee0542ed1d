"""Hints as jobs of Procrastinate, in queues of their workflows: one worker gets each, the most important first.

A job ends when the claim is taken, so it lasts milliseconds, and a worker that ends leaves nothing of it to be
repeated. What is executed already is woken by a signal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from procrastinate import App, PsycopgConnector
from psycopg_pool import AsyncConnectionPool

from checkpoints.database.alias import connection
from checkpoints.database.direct import direct_parameters
from checkpoints.sql.conninfo import application_name
from wfdash import pubsub
from wfdash.installation.stopping import waited
from wfdash.pubsub.hints import LONGEST_NAME, HintedWorker, queue_of, signal, subscribe
from wfdash.pubsub.transport import Outage

log = logging.getLogger(__name__)

TASK = "wfdash.drive"
CONCURRENT = 8
"""Jobs at once: each waits for one claim."""
POLL_SECONDS = 0.25
"""Procrastinate loses a notification that arrives while it fetches: so soon it looks by itself."""
RETRY_SECONDS = 1.0
CONNECT_SECONDS = 10.0
TIDY_SECONDS = 60.0
LATE = "Workers find runs by looking each second: %s: %s: %s. Retrying each second"
SEND = f"""
    INSERT INTO procrastinate_jobs (queue_name, task_name, priority, queueing_lock, args)
    SELECT 'run:' || CASE WHEN octet_length(workflow) <= {LONGEST_NAME} THEN workflow ELSE md5(workflow) END,
           'wfdash.drive', priority, 'run:' || id, jsonb_build_object('run', id)
    FROM checkpoints_run WHERE id = ANY(%s) ORDER BY id
    ON CONFLICT (queueing_lock) WHERE status = 'todo'
    DO UPDATE SET priority = greatest(procrastinate_jobs.priority, excluded.priority)
"""  # noqa: S608
"""DO UPDATE: it locks a hint that waits, and fetching skips it, until this transaction ends. One that is left alone
could be fetched before our commit, and its worker would find nothing new.
"""
TIDY = """
    DELETE FROM procrastinate_jobs AS job WHERE task_name = 'wfdash.drive' AND (
        (status = 'doing' AND worker_id IS NULL)
        OR status NOT IN ('todo', 'doing')
        OR (status = 'todo' AND NOT EXISTS (
            SELECT 1 FROM checkpoints_run AS run WHERE run.id = job.args ->> 'run' AND run.phase = 'ready'
        ))
    )
"""
"""What killed workers left, and hints at runs that are not due any more."""


class QueuedHints:
    """Hints by Procrastinate, on the PostgreSQL of the runs."""

    are_all_heard = False

    def send(self, *runs: str) -> None:
        """Enqueue the runs in the caller's transaction."""
        with connection().cursor() as cursor:
            cursor.execute(SEND, [list(runs)])
        signal(*runs)

    async def serve(self, worker: HintedWorker, stopping: asyncio.Event) -> None:
        """Take the runs of this worker's queues, and wake what is executed here already."""
        # Whatever happens is said here, once for each outage.
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
        leave = subscribe(worker.wake, pubsub.runs_due)
        outage = Outage("Procrastinate", LATE)
        try:
            while not stopping.is_set():
                try:
                    await work(worker, stopping, outage)
                except Exception as error:
                    outage.begin("work", cause_of(error))
                await waited(stopping, RETRY_SECONDS)
            await asyncio.Event().wait()
        finally:
            leave()


async def work(worker: HintedWorker, stopping: asyncio.Event, outage: Outage) -> None:
    """Take jobs until ``stopping`` is set; raises if that ends before."""
    app = App(connector=PsycopgConnector())

    async def drive(run: str) -> None:
        try:
            await worker.take(run)
        except Exception as error:
            outage.begin("claim", cause_of(error))
        else:
            outage.end("claim")

    app.task(name=TASK)(drive)
    async with open_pool() as pool, app.open_async(pool):
        await app.connector.execute_query_async(TIDY)
        serving, ending = (
            asyncio.ensure_future(serve_queues(app, worker.workflows)),
            asyncio.ensure_future(stopping.wait()),
        )
        outage.end("work")
        try:
            while not serving.done() and not ending.done():
                await asyncio.wait((serving, ending), timeout=TIDY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                await app.connector.execute_query_async(TIDY)
            if serving.done():
                serving.result()
                # It says nothing of the error that made it end, such as a database that was away.
                raise RuntimeError("its worker ended")
        finally:
            ending.cancel()
            serving.cancel()
            await asyncio.gather(serving, ending, return_exceptions=True)


async def serve_queues(app: App, workflows: Sequence[str]) -> None:
    """Fetch jobs of these workflows, until cancelled or the database is away."""
    await app.run_worker_async(
        queues=[queue_of(name) for name in workflows],
        concurrency=CONCURRENT,
        fetch_job_polling_interval=POLL_SECONDS,
        delete_jobs="always",
        install_signal_handlers=False,
        shutdown_graceful_timeout=RETRY_SECONDS,
    )


def cause_of(error: Exception) -> Exception:
    """Return what Procrastinate's error is about: its own says no more than that the database had one."""
    cause = error.__cause__
    return cause if isinstance(cause, Exception) else error


def open_pool() -> AsyncConnectionPool:
    """Return a pool to be opened. It checks no connection before it is used: that would be a round trip for each query.

    Procrastinate's own does, and is left open if this worker ends while it connects.
    """
    parameters = {**direct_parameters(), "fallback_application_name": application_name("hints")}
    return AsyncConnectionPool(kwargs=parameters, min_size=1, max_size=3, open=False, timeout=CONNECT_SECONDS)
