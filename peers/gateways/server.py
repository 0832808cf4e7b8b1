"""An MCP server on HTTP, raw frames and no SDK: the server before which each stdio client is put.

`server.py FILE` listens on the loopback at a free port and writes its URL to FILE. It appends JSON lines to the file
named by RESCIND_MARKS: every request, every stream that its client closed, and what its work did. The work is named by
an argument of the call. RESCIND_ERA is `legacy`, `modern` or `both`, and each request is served in its own era:

- legacy: `notifications/cancelled` in its session stops the work, and its stream ends without a response (MCP-C06);
  DELETE stops all work of the session; a client that hangs up stops nothing (MCP-H01).
- modern: a client that hangs up stops the work (MCP-H03); a notification is accepted and cancels nothing (MCP-H05).

Tools: `echo` answers. `hang` opens its stream and works until it is stopped. `mute` does the same, and sends not even
the head of its response. `reports` is `hang` after one report of progress. `cut` opens its stream and closes it without
an answer, once it has started. `half` sends half of its answer, and the rest when a file beside the marks releases it.

With RESCIND_HOLD=1 the handshake is answered when it is released. With RESCIND_SIGN_IN=1 requests need a token, which the
same server gives away.
"""

import json
import os
import select
import socket
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
import sign_in  # noqa: E402

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
ERA = os.environ.get("RESCIND_ERA", "both")
SIGNS_IN = bool(os.environ.get("RESCIND_SIGN_IN"))
PATH = "/mcp"
TICK = 0.01  # seconds between two looks at a connection

CAPABILITIES = {"tools": {}}
INFO = {"name": "server", "version": "1"}
CACHE = {"ttlMs": 0, "cacheScope": "private"}

_marks = os.open(os.environ["RESCIND_MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_lock = threading.Lock()
_sessions: set[str] = set()
_in_flight: dict[tuple[str, str], threading.Event] = {}  # by session and id, legacy only


def mark(event: str, **fields: object) -> None:
    line = json.dumps({"event": event, "pid": os.getpid(), **fields}) + "\n"
    os.write(_marks, line.encode())


def tool(name: str, argument: str) -> dict:
    properties = {argument: {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": [argument]}
    return {"name": name, "description": f"the work of {name}", "inputSchema": schema}


TOOLS = [tool("echo", "text"), *(tool(name, "work") for name in ("hang", "mute", "cut", "reports", "half"))]


def await_release(work: str) -> None:
    """Until a file beside the marks is named after the work."""
    while not os.path.exists(f"{os.environ['RESCIND_MARKS']}.{work}"):
        time.sleep(TICK)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if SIGNS_IN and (grant := sign_in.granted(self.path, body)):
            status, document = grant
            self.reply(status, json.dumps(document).encode())
            return
        if self.path != PATH:
            self.reject(404, None, -32000, "not here")
            return
        if SIGNS_IN and self.headers.get("Authorization") != f"Bearer {sign_in.TOKEN}":
            self.reply(401, b"{}", {"WWW-Authenticate": sign_in.challenge(self.origin(), PATH)})
            return
        try:
            message = json.loads(body)
            method = message.get("method")
        except (ValueError, AttributeError):
            self.reject(400, None, -32700, "not one JSON-RPC message")
            return
        ident, params = message.get("id"), message.get("params") or {}
        session, header = self.headers.get("Mcp-Session-Id"), self.headers.get("MCP-Protocol-Version")
        version = (params.get("_meta") or {}).get(f"{META}protocolVersion")
        modern = ERA != "legacy" and (version is not None or (ident is None and header == MODERN))
        mark("post", method=method, id=ident, modern=modern, session=session, header=header, params=params)
        if method in ("initialize", "server/discover") and os.environ.get("RESCIND_HOLD"):
            await_release("handshake")
        if ident is None or method is None:
            self.notified(modern, session, method, params)
        elif modern and version != MODERN:
            self.unsupported(ident, version)
        elif modern and (header != version or self.headers.get("Mcp-Method") != method or not self.is_named(params)):
            self.reject(400, ident, -32020, "Header mismatch")
        elif modern:
            self.serve(ident, method, params, None)
        elif ERA == "modern":
            self.unsupported(ident, params.get("protocolVersion"))
        elif method == "initialize":
            self.initialize(ident, params)
        elif session not in _sessions:
            self.reject(404 if session else 400, ident, -32600, "no such session")
        else:
            self.serve(ident, method, params, session)

    def is_named(self, params: dict) -> bool:
        return "name" not in params or self.headers.get("Mcp-Name") == params["name"]

    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def do_GET(self) -> None:
        if SIGNS_IN and (document := sign_in.document(self.origin(), PATH, self.path)):
            self.reply(200, json.dumps(document).encode())
            return
        if SIGNS_IN and (location := sign_in.redirect(self.path)):
            self.reply(302, b"", {"Location": location})
            return
        if self.path != PATH:
            self.reject(404, None, -32000, "not here")
            return
        session = self.headers.get("Mcp-Session-Id")
        mark("get", session=session, last_event_id=self.headers.get("Last-Event-ID"))
        if ERA == "modern" or session not in _sessions or self.headers.get("Last-Event-ID"):
            self.reject(405, None, -32000, "no stream here")
            return
        self.open_stream()
        while session in _sessions and not self.is_closed(1.0):
            pass
        self.close_connection = True

    def do_DELETE(self) -> None:
        session = self.headers.get("Mcp-Session-Id")
        mark("delete", session=session)
        if session not in _sessions:
            self.reject(405 if ERA == "modern" else 404, None, -32000, "no such session")
            return
        with _lock:
            _sessions.discard(session)
            for (owner, _), stop in _in_flight.items():
                if owner == session:
                    stop.set()
        self.reply(200, b"")

    def initialize(self, ident: object, params: dict) -> None:
        asked = params.get("protocolVersion")
        session = uuid.uuid4().hex
        _sessions.add(session)
        version = asked if asked in LEGACY else LEGACY[0]
        result = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO}
        self.answer(ident, False, result, {"Mcp-Session-Id": session})

    def notified(self, modern: bool, session: str | None, method: str | None, params: dict) -> None:
        if not modern and ERA != "modern" and session not in _sessions:
            self.reject(404 if session else 400, None, -32600, "no such session")
            return
        if method == "notifications/cancelled" and not modern and session:
            with _lock:
                stop = _in_flight.pop((session, json.dumps(params.get("requestId"))), None)
            if stop:
                stop.set()
        self.reply(202, b"")

    def serve(self, ident: object, method: str, params: dict, session: str | None) -> None:
        modern = session is None
        if method == "server/discover" and modern:
            versions = [MODERN] if ERA == "modern" else [MODERN, *LEGACY]
            meta = {f"{META}serverInfo": INFO}
            result = {"supportedVersions": versions, "capabilities": CAPABILITIES, "_meta": meta, **CACHE}
            self.answer(ident, True, result)
        elif method == "ping" and not modern:
            self.answer(ident, False, {})
        elif method == "tools/list":
            self.answer(ident, modern, {"tools": TOOLS, **(CACHE if modern else {})})
        elif method == "tools/call":
            self.call(ident, params, session)
        else:
            self.reject(404 if modern else 200, ident, -32601, "Method not found")

    def call(self, ident: object, params: dict, session: str | None) -> None:
        name, arguments = params.get("name"), params.get("arguments") or {}
        work = arguments.get("work")
        if name == "echo":
            content = [{"type": "text", "text": str(arguments.get("text"))}]
            self.answer(ident, session is None, {"content": content, "isError": False})
            return
        stop = threading.Event()
        if session:
            with _lock:
                _in_flight[session, json.dumps(ident)] = stop
        if name != "mute":
            self.open_stream()
        mark("started", work=work, id=ident, modern=session is None)
        if name == "cut":
            mark("cut", work=work)
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if name == "half":
            self.answer_in_halves(ident, work, session is None)
            return
        if name == "reports":
            self.report(params)
        closed = False
        while not stop.is_set():
            if closed:
                stop.wait()
            elif self.is_closed(TICK):
                closed = True
                mark("closed", work=work)
                if session is None:
                    break
        mark("stopped", work=work, id=ident)
        if name == "mute" and not closed:
            self.open_stream()
        self.close_connection = True

    def report(self, params: dict) -> None:
        """Says that the first of two steps is done."""
        token = (params.get("_meta") or {}).get("progressToken")
        params = {"progressToken": token, "progress": 1, "total": 2}
        self.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def answer_in_halves(self, ident: object, work: str, modern: bool) -> None:
        result = {"content": [{"type": "text", "text": work}], "isError": False}
        result = {"resultType": "complete", **result} if modern else result
        event = f"data: {json.dumps({'jsonrpc': '2.0', 'id': ident, 'result': result})}\n\n".encode()
        half = len(event) // 2
        self.wfile.write(event[:half])
        self.wfile.flush()
        mark("half", work=work)
        await_release(work)
        try:
            self.wfile.write(event[half:])
            self.wfile.flush()
        except OSError:
            mark("closed", work=work)
        mark("answered", work=work)
        self.close_connection = True

    def event(self, message: dict) -> None:
        self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())
        self.wfile.flush()

    def is_closed(self, patience: float) -> bool:
        """Whether the client closes its connection within this time."""
        if not select.select([self.connection], [], [], patience)[0]:
            return False
        try:
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def open_stream(self) -> None:
        """A body that ends with its connection."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.flush()

    def answer(self, ident: object, modern: bool, result: dict, headers: dict[str, str] | None = None) -> None:
        result = {"resultType": "complete", **result} if modern else result
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}).encode(), headers)

    def reject(self, status: int, ident: object, code: int, words: str, data: dict | None = None) -> None:
        error = {"code": code, "message": words, **({"data": data} if data else {})}
        self.reply(status, json.dumps({"jsonrpc": "2.0", "id": ident, "error": error}).encode())

    def unsupported(self, ident: object, asked: object) -> None:
        supported = [MODERN] if ERA == "modern" else [MODERN, *LEGACY]
        data = {"supported": supported, "requested": str(asked)}
        self.reject(400, ident, -32022, "Unsupported protocol version", data)

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """A client that went away."""


def main() -> None:
    server = Server(("127.0.0.1", 0), Handler)
    with open(f"{sys.argv[1]}.new", "w", encoding="utf-8") as file:
        file.write(f"http://127.0.0.1:{server.server_address[1]}{PATH}")
    os.rename(f"{sys.argv[1]}.new", sys.argv[1])
    server.serve_forever()


main()
