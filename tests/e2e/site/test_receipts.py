"""A decision signed in a real browser by its virtual authenticator, and its receipt checked without the server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.conftest import OpenContext, Troubles
from tests.e2e.desk import look, start, wait_for_phase
from tests.e2e.looks import check_page
from tests.e2e.moves import act
from tests.e2e.server import Server, shell
from tests.e2e.server import gate_of_all as gate_of_all
from tests.e2e.site.test_passkeys import DEVICE

KEY = "from checkpoints.models import Receipt; print(Receipt.objects.get().key)"
WORD = """
from django.contrib.auth.models import User
ana = User.objects.get(username="ana")
ana.set_password("ana pass")
ana.save()
"""


def test_a_decision_is_signed_on_its_page_and_its_receipt_holds_elsewhere(
    server: Server, open_context: OpenContext, troubles: Troubles, tmp_path: Path
) -> None:
    troubles.expect("422")
    shell(server, WORD)
    (run,) = start(server, {"subject": "Refund under signature?", "policy": {"undo": 0, "sign": "passkey"}})
    path = f"/requests/{look(server, run)['open'][0]}/"
    page = open_context(base_url=server.url.replace("127.0.0.1", "localhost")).new_page()
    page.goto("/sign-in/")
    page.get_by_label("User name").fill("ana")
    page.get_by_label("Password").fill("ana pass")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/")
    page.goto(path)
    act(page, "reject", {"Reason": "No contract"}, open_fold=True)
    enrol = page.get_by_role("link", name="Add a passkey")
    expect(enrol).to_be_focused()
    expect(page.get_by_text("No contract").first).to_be_visible()
    enrol.press("Enter")
    page.get_by_label("Name of the passkey").fill("Laptop")
    page.get_by_label("Current password").fill("ana pass")
    page.get_by_role("button", name="Add a passkey").click()
    devices = page.context.new_cdp_session(page)
    devices.send("WebAuthn.enable")
    device = devices.send("WebAuthn.addVirtualAuthenticator", {"options": DEVICE})["authenticatorId"]
    page.get_by_role("button", name="Create the passkey").click()
    page.get_by_role("link", name="I have saved them").click()

    page.wait_for_url(f"**{path}")
    expect(page.get_by_text("No contract").first).to_be_visible()
    devices.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
    act(page, "approve")
    expect(page.locator("[data-sign-problem]")).to_contain_text("Nothing was confirmed")
    assert look(server, run)["replies"] == []
    devices.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": True})
    page.get_by_role("button", name="Sign with your passkey").press("Enter")
    wait_for_phase(server, run, "completed")
    # Its message belongs to the page that follows: on the next one it would fade while colours are measured.
    expect(page.locator("[data-sign]")).to_have_count(0)

    page.goto(f"{path}receipts/")
    expect(page.get_by_role("heading", name="ana: approved, as approval")).to_be_visible()
    with page.expect_download() as taken:
        page.get_by_role("link", name="Download JSON").click()
    file = tmp_path / "receipt.json"
    taken.value.save_as(file)
    key = shell(server, KEY)
    elsewhere = {"PATH": "/usr/bin:/bin", "WFDASH_DATA": str(tmp_path / "none")}
    verify = [sys.executable, "-m", "wfdash", "verify", str(file), "--key", key]
    done = subprocess.run(verify, env=elsewhere, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["statement"]["person"] == "ana"
    check_page(page)
