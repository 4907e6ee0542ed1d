"""Drives runs: claims one, hands it to its engine, records what it does under the claim.

One function, ``drive.advance``, and ways to call it: inline, in the server (``embedded``, one per process), or in a
worker process (``process``), which executes many runs at once. ``loop_watchdog`` names the step that blocks the event
loop, and fails the run of one that blocks a second process without an end.

Beside the runs one worker leads (``election``): each second one statement finds what there is to do, and ``sweeps``
begins the jobs: deadlines, schedules, delivery of notifications (``outbox``), what webhooks are sent, metrics, held
runs, tidying. Every worker has its ``heartbeat``.
"""
