"""A model at a loopback address that says what a test has written: for the real command line of Claude Code."""

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
                for message in body.get("messages", [])
                if isinstance(message["content"], list)
                for part in message["content"]
                if part.get("type") == "tool_result"
            ]
            if results and body.get("tools"):
                told[:] = results
            left = calls[len(results) :] if body.get("tools") else []
            block = {"type": "text", "text": "Done."}
            if left:
                block = {"type": "tool_use", "id": f"toolu_{len(results)}", **left[0]}
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for event in _events(block, "tool_use" if left else "end_turn"):
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
