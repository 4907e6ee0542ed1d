"""Stories of reaching people: a mail whose link decides, a bell on any page, an escalation after a deadline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenContext, OpenPage, Troubles, sign_in
from tests.e2e.desk import add_people, look, start, wait_for_phase
from tests.e2e.looks import check_accessibility, check_no_sideways_scrolling
from tests.e2e.moves import LATER, act, card
from tests.e2e.postbox import Postbox
from tests.e2e.server import Server, serving, shell, wait_until
from tests.notifications.push_service import FakeBrowser, push_service

ANSWER = re.compile(r"http://\S+/answer/\S+/")


class Mailing(Server):
    """A server that sends mail, and answers take effect after a while."""

    mail = ""

    @property
    def env(self) -> dict[str, str]:
        """With a mail server, and a push service on this machine."""
        return super().env | {"WFDASH_MAIL": self.mail, "WFDASH_URL": self.url, "WFDASH_HOOKS_LOCAL": "1"}


@pytest.fixture(scope="module")
def postbox() -> Iterator[Postbox]:
    with Postbox() as postbox:
        yield postbox


@pytest.fixture(scope="module")
def server(postbox: Postbox, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("notices") / "data"
    served = Mailing(data, files=[Path(__file__).parents[1] / "gates.py"], template=sqlite_template, undo=8)
    served.mail = postbox.url
    with serving(served):
        add_people(served)
        give_address = (
            "from django.contrib.auth.models import User\nUser.objects.filter(username={!r}).update(email={!r})"
        )
        for name in ("ana", "ben"):
            shell(served, give_address.format(name, f"{name}@example.org"))
        yield served
    assert not ANSWER.search(served.log())


@pytest.fixture
def stranger(open_context: OpenContext, troubles: Troubles) -> Page:
    """A page in a browser where no one is signed in, on a phone."""
    context = open_context(viewport={"width": 390, "height": 844})
    return context.new_page()


def link_in_mail(postbox: Postbox, to: str, subject: str) -> str:
    """Wait for the mail and return its answer link."""

    def find() -> str:
        for mail in postbox.mails:
            if mail["to"] == to and subject in mail["subject"]:
                found = ANSWER.search(mail.get_body(("plain",)).get_content())
                return found.group() if found else ""
        return ""

    return wait_until(find, what=f"a mail to {to} about {subject}")


@pytest.mark.nightly
def test_a_reminder_by_mail_lets_someone_decide_on_the_phone_once(
    server: Server, postbox: Postbox, stranger: Page, troubles: Troubles
) -> None:
    (run,) = start(server, {"subject": "Refund by mail?", "policy": {"by": "ana", "due": "1h", "remind": "3599s"}})
    link = link_in_mail(postbox, "ana@example.org", "Refund by mail?")
    stranger.goto(link)
    expect(stranger.get_by_role("main")).to_contain_text("Answering as ana")
    check_accessibility(stranger)
    check_no_sideways_scrolling(stranger)
    assert look(server, run)["replies"] == []
    act(stranger, "approve")
    expect(stranger.get_by_role("main").get_by_role("status")).to_contain_text("You approved this")
    stranger.get_by_role("button", name="Undo").click()
    act(stranger, "approve")
    wait_for_phase(server, run, "completed")
    stranger.goto(link)
    expect(stranger.get_by_role("main").get_by_role("status")).to_contain_text("Nothing left to do")
    assert stranger.locator("button[name=_action]").count() == 0


@pytest.mark.nightly
def test_after_the_deadline_another_is_told_and_may_decide(person: OpenPage, server: Server, postbox: Postbox) -> None:
    ben = person("ben")
    ben.goto("/workflows/")
    bell = ben.locator("[data-notice-count]")
    policy = {"by": "ana", "due": "8s", "undo": 0, "escalate": "ben"}
    (run,) = start(server, {"subject": "Refund too late?", "policy": policy})
    expect(bell).to_be_visible(timeout=LATER)
    ben.get_by_role("button", name=re.compile("^Notifications")).click()
    ben.get_by_role("link", name=re.compile("Escalated to you: Refund too late")).click()
    expect(card(ben)).to_be_visible()
    # Before the answer: a mail that asks for one is not sent after it.
    assert link_in_mail(postbox, "ben@example.org", "Refund too late?")
    act(ben, "approve")
    wait_for_phase(server, run, "completed")


@pytest.mark.nightly
def test_a_person_chooses_what_they_are_told(person: OpenPage, server: Server) -> None:
    ana = person("ana")
    ana.goto("/settings/")
    ana.get_by_label("New request for me: E-mail").check()
    ana.get_by_label("Time zone").fill("Europe/Berlin")
    ana.get_by_label("Once an hour").check()
    ana.get_by_role("button", name="Save").click()
    expect(ana.get_by_role("main")).to_contain_text("Settings saved")
    expect(ana.get_by_label("New request for me: E-mail")).to_be_checked()
    expect(ana.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    check_accessibility(ana)
    # However many come at once, the page stays in sight, and so does what went wrong.
    ana.evaluate(BURST)
    expect(ana.locator("#toasts > *")).to_have_text([re.compile(text) for text in ("failed", "6", "7", "8", "9")])


SUBSCRIBE = """(given) => {
  PushManager.prototype.getSubscription = async () => localStorage.subscribed ? found() : null;
  PushManager.prototype.subscribe = async ({ applicationServerKey }) => {
    localStorage.subscribed = String(applicationServerKey.byteLength);
    return found();
  };
  const found = () => ({
    endpoint: given.endpoint,
    options: {},
    toJSON: () => ({ endpoint: given.endpoint, keys: { p256dh: given.p256dh, auth: given.auth } }),
    unsubscribe: async () => delete localStorage.subscribed,
  });
}"""
"""Chromium subscribes at its maker's push service only: in its place is one on this machine."""
BURST = """async () => {
  const { toast } = await import(new URL("site/toast.js", document.querySelector("script[data-scripts]").src));
  toast("failed", "bad");
  for (let number = 0; number < 10; number++) toast(String(number));
}"""
KEPT = (
    "async () => (await (await caches.open((await caches.keys())[0])).keys()).map(({ url }) => new URL(url).pathname)"
)


def test_a_phone_is_called_by_push_and_shows_that_there_is_no_connection(
    server: Server, open_context: OpenContext, troubles: Troubles
) -> None:
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with push_service() as service:
        browser = FakeBrowser(service)
        context = open_context(base_url=server.url, **phone)
        context.grant_permissions(["notifications"], origin=server.url)
        context.add_init_script(f"({SUBSCRIBE})({json.dumps(browser.subscription)})")
        page = context.new_page()
        sign_in(page, server.link_for("ben"))
        page.goto("/settings/")
        page.get_by_role("button", name="Turn on in this browser").tap()
        expect(page.get_by_text("this browser", exact=True)).to_be_visible()
        check_no_sideways_scrolling(page)
        (run,) = start(server, {"subject": "Refund by push?", "policy": {"by": "ben"}})
        arrived = wait_until(lambda: service.arrived[-1:], what="a push message")
        message = browser.read(arrived[0].body)
        assert message["title"] == "Review requested: Refund by push?"
        assert message["url"] == f"/requests/{look(server, run)['open'][0]}/"
        assert all(path == "/offline/" or path.startswith("/static/") for path in page.evaluate(KEPT))
        troubles.expect("ERR_INTERNET_DISCONNECTED")
        context.set_offline(True)
        page.goto("/runs/")
        expect(page.get_by_role("heading", name="No connection")).to_be_visible()
        context.set_offline(False)
        page.get_by_role("link", name="Try again").tap()
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        page.goto("/settings/")
        page.get_by_role("button", name=re.compile("^Remove")).tap()
        expect(page.get_by_role("button", name="Turn on in this browser")).to_be_visible()
