"""Socket Mode: a leader connects to Slack from here, acts on what comes, says so, and closes."""

from __future__ import annotations

import json

import pytest

from tests.notifications.slack_workspace import TEAM, workspace
from tests.people import make_people
from tests.worker.conftest import until
from wfdash.access.viewer import viewer_for
from wfdash.actions.requests import chat
from wfdash.worker.sweeps import ChatSocket, all_jobs

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_command_comes_by_the_socket_and_is_replied_to_once(settings) -> None:
    ana, kept = make_people()["ana"], ChatSocket()
    with workspace(sockets=True) as slack:
        settings.WFDASH_SLACK_API, settings.WFDASH_SLACK_TEAM = slack.url, TEAM
        settings.WFDASH_SLACK_TOKEN, settings.WFDASH_SLACK_APP_TOKEN = "xoxb-1", "xapp-1"
        kept.keep()
        until(lambda: slack.sockets)
        code = chat.begin_connection(viewer_for(ana))
        command = {"command": "/wfdash", "text": f"connect {code}", "team_id": TEAM, "user_id": "UANA"}
        slack.sockets[0].send(json.dumps({"type": "slash_commands", "envelope_id": "e1", "payload": command}))
        until(lambda: slack.acks)
        assert slack.acks[0]["envelope_id"] == "e1"
        assert slack.acks[0]["payload"]["text"].startswith("Connected with ana")
        assert kept.client.is_connected()
        kept.close()
    assert kept.client is None


def test_a_slack_that_is_away_leaves_no_connection(settings) -> None:
    settings.WFDASH_SLACK_API, settings.WFDASH_SLACK_APP_TOKEN = "http://127.0.0.1:9/", "xapp-1"
    kept = ChatSocket()
    with pytest.raises(OSError, match="refused"):
        kept.keep()
    assert kept.client is None
    assert {"chat", "chat-socket"} <= {job.name for job in all_jobs()}
