"""Passkeys in a real browser: its virtual authenticator makes them and signs, under the real content policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import OpenContext
from tests.e2e.looks import check_page
from tests.e2e.server import Server, serving, shell

PASSWORD = "correct horse battery"
PERSON = "from django.contrib.auth.models import User; User.objects.create_user('ana', password={!r})"
APP = """
import pyotp
from django.contrib.auth.models import User
from wfdash.access.signin import second_factor
ana = User.objects.get(username="ana")
if not second_factor.reset(ana):
    setup = second_factor.begin(ana)
    print(second_factor.confirm(ana, pyotp.TOTP(second_factor.pending_secret(ana, setup)).now(), setup)[0])
"""
TWICE = "button => { button.onclick = () => setTimeout(() => button.click(), 9); button.click(); }"
DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    with serving(Server(tmp_path_factory.mktemp("passkeys") / "data", template=sqlite_template)) as server:
        shell(server, PERSON.format(PASSWORD))
        yield server


def enter_password(page: Page) -> None:
    page.goto("/sign-in/")
    page.get_by_label("User name").fill("ana")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def sign_out(page: Page) -> None:
    page.get_by_role("button", name="ana", exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in/")


def test_a_passkey_is_made_named_used_for_one_factor_and_for_both_and_removed(
    server: Server, open_context: OpenContext
) -> None:
    # A passkey belongs to a name of a host: no browser makes one for a number.
    page = open_context(base_url=server.url.replace("127.0.0.1", "localhost")).new_page()
    use = page.get_by_role("button", name="Use a passkey")
    enter_password(page)
    page.wait_for_url("**/")
    page.goto("/settings/second-factor/")
    page.get_by_label("Name of the passkey").fill("Laptop")
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="Create the passkey Laptop")).to_be_visible()
    check_page(page)
    # Not before, and other pages in a tab of their own: a check detaches from its tab, and the authenticator is gone.
    devices, other = page.context.new_cdp_session(page), page.context.new_page()
    page.bring_to_front()
    devices.send("WebAuthn.enable")
    device = devices.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})["authenticatorId"]
    page.get_by_role("button", name="Create the passkey").click()
    expect(page.get_by_role("heading", name="Save your recovery codes")).to_be_visible()
    page.get_by_role("link", name="I have saved them").click()
    page.get_by_label("Change passkey Laptop").click()
    page.get_by_label("Name of the passkey").first.fill("Work laptop")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_text("Work laptop", exact=True)).to_be_visible()
    other.goto("/settings/second-factor/")
    other.get_by_label("Change passkey Work laptop").click()
    check_page(other)

    sign_out(page)
    enter_password(page)
    expect(page.get_by_role("heading", name="Confirm it’s you")).to_be_visible()
    other.goto("/sign-in/code/")
    check_page(other)
    page.bring_to_front()
    use.click()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()

    sign_out(page)
    other.goto("/sign-in/")
    check_page(other)
    page.bring_to_front()
    devices.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
    use.click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was confirmed")
    devices.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": True})
    use.click()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()

    page.goto("/settings/second-factor/")
    page.get_by_label("Change passkey Work laptop").click()
    row = page.get_by_role("listitem").filter(has_text="Work laptop")
    row.get_by_role("button", name="Use a passkey").click()
    expect(row.get_by_role("button", name="Passkey confirmed")).to_be_visible()
    row.get_by_role("button", name="Remove passkey").click()
    expect(page.get_by_text("Passkey removed.")).to_be_visible()
    expect(page.get_by_role("heading", name="The second factor is off")).to_be_visible()


def test_of_a_double_click_on_a_code_that_works_once_one_counts(server: Server, open_context: OpenContext) -> None:
    page = open_context(base_url=server.url).new_page()
    code = shell(server, APP)
    enter_password(page)
    page.get_by_label("Code").fill(code)
    page.get_by_role("main").get_by_role("button", name="Sign in").evaluate(TWICE)
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    shell(server, APP)
