"""A model at a loopback address that says what a test has written: for the real Claude Code and Codex."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"input_tokens": 1, "output_tokens": 1}


def _events(block: dict[str, Any], stop: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a message with one block, as the Messages API streams them."""
    fields = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "stop_reason": None}
    yield {"type": "message_start", "message": {**fields, "content": [], "stop_sequence": None, "usage": USAGE}}
    if block["type"] == "text":
        begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        begun, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_start", "index": 0, "content_block": begun}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": USAGE}
    yield {"type": "message_stop"}


def _responses(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a response with one item, as the Responses API streams them."""
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
    yield {"type": "response.created", "response": {"id": "r"}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {"id": "r", "output": [], "usage": {**usage, "total_tokens": 2}}}


@contextmanager
def scripted_model(calls: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Serve a model that calls these tools, one after another, and then ends. Yields its address, and what it is told
    of each call.
    """
    told: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            results = [
                part
                for message in [*body.get("messages", []), {"content": body.get("input")}]
                if isinstance(message["content"], list)
                for part in message["content"]
                if part.get("type") in {"tool_result", "function_call_output"}
            ]
            if results and body.get("tools"):
                told[:] = results
            left = calls[len(results) :] if body.get("tools") else []
            if self.path.endswith("/responses"):
                said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
                called = {"type": "function_call", "call_id": f"call_{len(results)}", **(left[0] if left else {})}
                events = _responses({"id": "i", **(called if left else said)})
            else:
                used = {"type": "tool_use", "id": f"toolu_{len(results)}", **(left[0] if left else {})}
                events = _events(*((used, "tool_use") if left else ({"type": "text", "text": "Done."}, "end_turn")))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for event in events:
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def do_GET(self) -> None:
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", told
    finally:
        server.shutdown()
        server.server_close()
