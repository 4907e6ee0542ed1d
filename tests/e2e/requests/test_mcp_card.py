"""A request as an MCP App: its card in a host's frame, which decides only with a token for that, and runs nothing."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from playwright.sync_api import FrameLocator, expect

from tests.client.serving import server_for_agents as server_for_agents
from tests.client.test_live import open_request
from tests.client.test_mcp import OTHERS, TOKENS
from tests.e2e.conftest import OpenContext
from tests.e2e.server import Server
from wfdash.client import Client

pytest.importorskip("mcp")
CSP = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'none'"
HOST = """<!doctype html><title>A host</title><main></main><script>
const links = [];
async function show(html, result) {
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  frame.srcdoc = html;
  frame.style.cssText = "width: 100%; height: 700px; border: 0";
  const say = (message) => frame.contentWindow.postMessage({jsonrpc: "2.0", ...message}, "*");
  addEventListener("message", async ({source, data: {id, method, params}}) => {
    if (source !== frame.contentWindow) return;
    if (method === "ui/initialize") say({id, result: {protocolVersion: "2026-01-26", hostCapabilities: {openLinks: {},
      serverTools: {}}, hostInfo: {name: "host", version: "1"}, hostContext: {theme: "light"}}});
    if (method === "ui/notifications/initialized") {
      say({method: "ui/notifications/tool-input", params: {arguments: {}}});
      say({method: "ui/notifications/tool-result", params: result});
    }
    if (method === "ui/open-link") { links.push(params.url); say({id, result: {}}); }
    if (method === "tools/call") say({id, ...await server(method, params)});
  });
  document.querySelector("main").replaceChildren(frame);
}
</script>"""
MARKUP = '<img src=x onerror="parent.owned = 1"> <b>Ship it?</b>'


def spoken(server: Server, token: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return what the door answers to a host."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    said: dict[str, Any] = httpx.post(f"{server.url}/mcp", json=body, headers=headers, timeout=60).json()
    return {name: said[name] for name in ("result", "error") if name in said}


def test_a_card_in_a_host_is_text_and_decides_only_as_its_token_may(server: Server, open_context: OpenContext) -> None:
    asking, plain, _ = server.shell(TOKENS).split()
    passing = server.shell(OTHERS).split()[0]
    page = open_context().new_page()
    page.route("http://host.test/", lambda to: to.fulfill(body=HOST, headers={"Content-Security-Policy": CSP}))
    callers = {"token": passing}
    page.expose_function("server", lambda method, params: spoken(server, callers["token"], method, params))

    def shown(token: str, request: str) -> FrameLocator:
        callers["token"] = token
        page.goto("http://host.test/", wait_until="load")
        tools = spoken(server, token, "tools/list", {})["result"]["tools"]
        uri = next(one["_meta"]["ui"]["resourceUri"] for one in tools if one["name"] == "show_request")
        read = spoken(server, token, "resources/read", {"uri": uri})["result"]["contents"][0]
        assert read["mimeType"] == "text/html;profile=mcp-app"
        call = {"name": "show_request", "arguments": {"request": request}}
        result = spoken(server, token, "tools/call", call)["result"]
        page.evaluate("([html, result]) => show(html, result)", [read["text"], result])
        frame = page.frame_locator("iframe")
        expect(frame.get_by_role("button", name="Open in wfdash")).to_be_visible()
        return frame

    with Client(server.url, plain, patience=60) as admin, Client(server.url, asking, patience=60) as agent:
        proposal = {"to": "</script><script>parent.owned = 1</script>", "turned": "a\u202eb"}
        message = {"subject": MARKUP, "proposal": proposal, "body": MARKUP, "consequence": {"approve": "It ships"}}
        run = agent.start("ask_people", message).id
        request = open_request(admin, run)
        expect(shown(plain, request).get_by_role("button")).to_have_text(["Open in wfdash"])
        frame = shown(passing, request)
        expect(frame.get_by_role("heading")).to_have_text(MARKUP)
        expect(frame.locator("main")).to_contain_text("</script><script>parent.owned")
        expect(frame.locator("main")).to_contain_text("a\\u202eb")
        assert (frame.locator("main :is(img, b, script)").count(), page.evaluate("window.owned")) == (0, None)
        expect(frame.get_by_role("button")).to_have_text(["Approve", "Reject", "Open in wfdash"])
        frame.get_by_role("button", name="Open in wfdash").click()
        page.wait_for_function("links.length === 1")
        assert page.evaluate("links[0]") == f"{server.url}/requests/{request}/"
        frame.get_by_role("button", name="Approve").click()
        expect(frame.get_by_role("status")).to_contain_text("Your answer was passed on")
        assert admin.decisions("by:ana").items[0].run == run
        risky = open_request(admin, agent.start("ask_people", {"subject": "Delete?", "risk": "high"}).id)
        expect(shown(passing, risky).get_by_role("button")).to_have_text(["Open in wfdash"])
        given = {"request": risky, "seen": admin.request(risky).seen, "answer": {"action": "approve"}}
        said = spoken(server, passing, "tools/call", {"name": "answer_request", "arguments": given})["result"]
        assert "risk is high" in json.dumps(said)
