"""What incoming webhooks are: how their senders sign, and how their JSON becomes a message. Pure."""

from __future__ import annotations
