"""An MCP server over stdio whose tools note in a file what they do: ``python -m tests.agents.mcp_shop LEDGER``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import Field

shop = MCPServer("shop", log_level="ERROR")
ledger = Path(sys.argv[-1])


def note(what: str) -> None:
    with ledger.open("a") as file:
        file.write(f"{what}\n")


@shop.tool()
def list_files() -> str:
    """List the files."""
    note("list")
    return "f0 f1 f2"


@shop.tool()
def delete_file(name: str, pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})] = "") -> str:
    """Delete a file for good."""
    note(f"delete {name}")
    return f"deleted {name}"


if __name__ == "__main__":
    note("server")
    shop.run("stdio")
