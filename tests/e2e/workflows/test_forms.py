"""One form with everything, filled in by people: with scripts, without them, as JSON, on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import OpenContext, OpenPage, Troubles, sign_in
from tests.e2e.desk import add_people, look, wait_for_phase
from tests.e2e.looks import check_accessibility, check_page
from tests.e2e.moves import card
from tests.e2e.server import Server, serving, shell, wait_until

START = """
from django.contrib.auth.models import User
from wfdash.engines import catalog
from wfdash.actions.runs.lifecycle import start_run
from wfdash.access.viewer import viewer_for
catalog.load()
print(start_run(viewer_for(User.objects.get(username="olga")), "booking", None).id)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    """The booking alone, with people."""
    data, file = tmp_path_factory.mktemp("forms") / "data", Path(__file__).parents[1] / "forms_served.py"
    with serving(Server(data, files=[file], template=sqlite_template)) as served:
        add_people(served)
        yield served


def ask(page: Page, server: Server) -> str:
    """Start a booking and open its form; returns the run."""
    run = shell(server, START)
    wait_until(lambda: look(server, run)["open"], what="an open request", pause=0.1)
    page.goto(f"/requests/{look(server, run)['open'][0]}/")
    expect(card(page)).to_contain_text("Book the trip")
    return run


def part(page: Page, name: str) -> Locator:
    return card(page).get_by_role("group", name=re.compile(f"^{name}( \\*)?( required)?$"))


def field(page: Page, label: str) -> Locator:
    return card(page).get_by_label(re.compile(rf"^{label}(\s+\*)?$"))


def send(page: Page) -> None:
    card(page).get_by_role("button", name="Submit").click()


def fill_in(page: Page) -> None:
    """Everything but the lines."""
    field(page, "Title").fill("Vienna")
    field(page, "Takes").fill("90 min")
    field(page, "On").fill("2026-11-21")
    field(page, "Token").fill("hush")
    part(page, "Tags").get_by_role("checkbox", name="train").check()
    part(page, "Pay").get_by_role("radio", name="Transfer").check()
    field(page, "IBAN").fill("AT61")


def add_line(page: Page, what: str, amount: str) -> None:
    rows = part(page, "Lines").locator(".list-row")
    count = rows.count()
    part(page, "Lines").get_by_role("button", name="Add").last.click()
    expect(rows).to_have_count(count + 1)
    rows.nth(count).get_by_label("What").fill(what)
    rows.nth(count).get_by_label("Amount").fill(amount)


def test_errors_are_told_at_their_fields_and_nothing_typed_is_lost(
    person: OpenPage, server: Server, troubles: Troubles, tmp_path: Path
) -> None:
    troubles.expect("422")
    page = person("ana")
    run = ask(page, server)
    fill_in(page)
    add_line(page, "Train", "0")
    add_line(page, "Hotel", "120.50")
    expect(field(page, "Token")).to_have_value("hush")
    Image.new("RGB", (8, 8)).save(tmp_path / "receipt.png")
    (tmp_path / "receipt.txt").write_text("hello")
    part(page, "Receipt").locator('input[type="file"]').set_input_files(tmp_path / "receipt.txt")
    field(page, "Seats").fill("3")
    send(page)
    expect(page.locator("[data-error-summary]")).to_be_focused()
    for words in ("Must be more than 0", "Must be image/png, this is text"):
        expect(card(page)).to_contain_text(words)
    check_accessibility(page)
    field(page, "Token").fill("hush")
    part(page, "Lines").get_by_label("Amount").first.fill("80")
    part(page, "Receipt").locator('input[type="file"]').set_input_files(tmp_path / "receipt.png")
    send(page)
    expect(card(page).get_by_text("Must be even: seats come in pairs").first).to_be_visible()
    expect(part(page, "Receipt").get_by_role("img")).to_be_visible()
    field(page, "Token").fill("hush")
    field(page, "Seats").fill("4")
    part(page, "Lines").get_by_role("button", name="Move Line 2 up").click()
    expect(part(page, "Lines").get_by_label("What").first).to_have_value("Hotel")
    send(page)
    expected = {"title": "Vienna", "pay": "transfer", "lines": "Hotel 120.50, Train 80", "takes": "1:30:00"}
    assert wait_for_phase(server, run, "completed")["output"] == expected


def test_what_is_too_large_is_not_sent_and_what_was_typed_stays(
    person: OpenPage, server: Server, tmp_path: Path
) -> None:
    page = person("ana")
    run = ask(page, server)
    fill_in(page)
    chosen, large = part(page, "Receipt").locator('input[type="file"]'), tmp_path / "large.png"
    large.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(1_000_000))
    chosen.set_input_files(large)
    expect(card(page).get_by_role("alert")).to_contain_text("at most 1 MB. large.png was not chosen")
    expect(chosen).to_have_value("")
    expect(chosen).to_have_attribute("aria-invalid", "true")
    check_accessibility(page)
    Image.new("RGB", (8, 8)).save(tmp_path / "receipt.png")
    chosen.set_input_files(tmp_path / "receipt.png")
    expect(card(page).get_by_role("alert")).to_have_count(0)
    page.evaluate("document.documentElement.dataset.mostText = 100")
    field(page, "Seats").fill("4")
    send(page)
    expect(page.get_by_text("Too large to send")).to_be_visible()
    expect(field(page, "Token")).to_have_value("hush")
    page.evaluate("document.documentElement.dataset.mostText = 1e6")
    send(page)
    assert wait_for_phase(server, run, "completed")["output"]["title"] == "Vienna"


def test_a_refusal_of_the_server_is_a_page_from_which_one_goes_back(
    person: OpenPage, server: Server, troubles: Troubles
) -> None:
    troubles.expect("413")
    page = person("ana")
    ask(page, server)
    field(page, "Title").fill("Vienna")
    page.evaluate("""() => {
        const form = document.getElementById("answer-form");
        const more = { type: "hidden", name: "more", value: "x".repeat(13e6) };
        form.append(Object.assign(document.createElement("input"), more));
        form.submit();
    }""")
    expect(page.get_by_role("heading", name="Request too large")).to_be_visible()
    check_accessibility(page)
    page.go_back()
    expect(field(page, "Title")).to_have_value("Vienna")


def test_it_works_without_scripts_and_as_json_on_a_phone(
    open_context: OpenContext, server: Server, troubles: Troubles
) -> None:
    troubles.expect("422")
    context = open_context(base_url=server.url, java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    sign_in(page, server.link_for("ana"))
    run = ask(page, server)
    fill_in(page)
    add_line(page, "Train", "80")
    field(page, "Token").fill("hush")
    add_line(page, "Bus", "2")
    part(page, "Lines").get_by_role("button", name="Remove Line 1").click()
    expect(part(page, "Lines").locator(".list-row")).to_have_count(1)
    field(page, "Token").fill("hush")
    card(page).get_by_role("button", name="Edit JSON").click()
    text = card(page).get_by_label("JSON")
    expect(text).to_have_value(re.compile('"what": "Bus"'))
    text.fill(text.input_value().replace('"2"', '"x"').replace('"amount": 2', '"amount": "x"'))
    send(page)
    expect(card(page)).to_contain_text("lines[0].amount")
    text.fill(text.input_value().replace('"amount": "x"', '"amount": 3'))
    send(page)
    assert wait_for_phase(server, run, "completed")["output"]["lines"] == "Bus 3"


def test_everybody_can_use_the_form_and_it_looks_right(person: OpenPage, server: Server) -> None:
    page = person("ana")
    ask(page, server)
    check_page(page, "form")
