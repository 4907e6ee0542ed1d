"""Publish/subscribe after commits: *check run R* (for workers) and *run R reached seq N* (for viewers).

A message carries no data but streamed text: it may be lost, duplicated or late, and every subscriber also polls. It
reaches the subscribers of this process at once, those of others through a ``Transport``.

``topics`` are what is published. ``transport`` joins, bounds and signs what is sent, and keeps the end of what steps
stream. ``bus`` is the port to what carries it, ``postgres`` and ``redis_bus`` are its adapters; ``process`` starts it
as the settings say. ``hints`` is the port by which actions hint at runs that are due, in their transaction.
"""

from __future__ import annotations

from wfdash.pubsub.process import streamed_text as streamed_text
from wfdash.pubsub.topics import Topic as Topic
from wfdash.pubsub.topics import backlog_found as backlog_found
from wfdash.pubsub.topics import consultations_due as consultations_due
from wfdash.pubsub.topics import consultations_ended as consultations_ended
from wfdash.pubsub.topics import inbox_changed as inbox_changed
from wfdash.pubsub.topics import lead_ended as lead_ended
from wfdash.pubsub.topics import notifications_changed as notifications_changed
from wfdash.pubsub.topics import requests_changed as requests_changed
from wfdash.pubsub.topics import rights_changed as rights_changed
from wfdash.pubsub.topics import runs_changed as runs_changed
from wfdash.pubsub.topics import runs_due as runs_due
from wfdash.pubsub.topics import text_streamed as text_streamed
from wfdash.pubsub.topics import worker_begun as worker_begun
