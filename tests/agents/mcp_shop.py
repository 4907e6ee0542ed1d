"""An MCP server over stdio whose tools note in a file what they do: ``python -m tests.agents.mcp_shop LEDGER``.

It says the protocol itself: a library that does takes over a second of each process that a test begins.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TEXT = {"type": "string"}
TOOLS = [
    {"name": "list_files", "description": "List the files.", "inputSchema": {"type": "object", "properties": {}}},
    {
        "name": "delete_file",
        "description": "Delete a file for good.",
        "inputSchema": {
            "type": "object",
            "properties": {"name": TEXT, "pin": {**TEXT, "default": "", "writeOnly": True}},
            "required": ["name"],
        },
    },
]
ledger = Path(sys.argv[-1])


def note(what: str) -> None:
    with ledger.open("a") as file:
        file.write(f"{what}\n")


def use(tool: str, arguments: dict[str, Any]) -> str:
    if tool == "list_files":
        note("list")
        return "f0 f1 f2"
    note(f"delete {arguments['name']}")
    return f"deleted {arguments['name']}"


def reply(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return what a reply to a request says."""
    if method == "initialize":
        server, able = {"name": "shop", "version": "1"}, {"tools": {}}
        return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": able, "serverInfo": server}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    if method == "tools/call":
        said = use(params["name"], params.get("arguments") or {})
        return {"result": {"content": [{"type": "text", "text": said}], "isError": False}}
    return {"result": {}} if method == "ping" else {"error": {"code": -32601, "message": "Method not found"}}


if __name__ == "__main__":
    note("server")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            said = {"jsonrpc": "2.0", "id": request["id"], **reply(request["method"], request.get("params") or {})}
            print(json.dumps(said), flush=True)
