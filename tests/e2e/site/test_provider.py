"""Signing in through the page of an OpenID Connect provider, under the real content policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import OpenContext, Troubles
from tests.e2e.looks import check_page
from tests.e2e.server import Server, serving
from tests.pages.account.test_provider import issuer as issuer
from tests.signin.provider import enrol

OF_THE_PROVIDER = ("ERR_NAME_NOT_RESOLVED", "favicon.ico")
"""What its own page complains of: a style sheet from elsewhere, which it has no network for."""


class ServerWithProvider(Server):
    """A server at which people sign in with a provider."""

    issuer = ""

    @property
    def env(self) -> dict[str, str]:
        """The environment of a server, with the provider."""
        names = {"ISSUER": self.issuer, "CLIENT_ID": "wfdash", "CLIENT_SECRET": "hush", "NAME": "Keycloak"}
        given = names | {"PEOPLE": "create", "GROUPS": '{"money": "finance"}'}
        return super().env | {f"WFDASH_OIDC_{name}": value for name, value in given.items()}


@pytest.fixture(scope="module")
def server(issuer: str, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    server = ServerWithProvider(tmp_path_factory.mktemp("provider") / "data", template=sqlite_template)
    server.issuer = issuer
    with serving(server):
        yield server


@pytest.mark.nightly
def test_one_press_leads_to_the_provider_and_back_to_the_page_that_was_wanted(
    server: Server, issuer: str, open_context: OpenContext, troubles: Troubles
) -> None:
    for part in OF_THE_PROVIDER:
        troubles.expect(part)
    enrol(issuer, "s-1", preferred_username="mia", groups=["money"])
    page = open_context(base_url=server.url).new_page()
    page.goto("/schedules/")
    check_page(page)
    page.get_by_role("button", name="Sign in with Keycloak").click()
    page.get_by_placeholder("sub").fill("s-1")
    page.get_by_role("button", name="Authorize").click()
    page.wait_for_url("**/schedules/")
    page.goto("/settings/account/")
    expect(page.get_by_text("Connected since")).to_be_visible()
    check_page(page)
    assert f"{server.url}/sign-in/provider/callback/" in server.log()
