"""An MCP client on HTTP, raw frames and no SDK, that can hang up at any moment. Both eras."""

import json
import socket
import threading
from urllib.parse import urlsplit

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
INFO = {"name": "client", "version": "1"}
CONNECT = 5.0  # seconds


class Exchange:
    """One HTTP request, and what came back so far."""

    def __init__(self, url: str, method: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.messages: list[dict] = []
        self.event_ids: list[str] = []
        # None while it is open; then `whole`, `cut` (the connection broke off) or `hung up` (by this client).
        self.end: str | None = None
        self._text = b""
        self._changed = threading.Condition()
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port), timeout=CONNECT)
        self._socket.settimeout(None)
        headers = {"Host": address.netloc, "Content-Length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._socket.sendall(f"{method} {address.path or '/'} HTTP/1.1\r\n{head}\r\n".encode() + body)
        threading.Thread(target=self._read, daemon=True).start()

    def hang_up(self) -> None:
        with self._changed:
            if self.end is None:
                self.end = "hung up"
                self._changed.notify_all()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def wait(self, patience: float) -> str | None:
        """How it ended; None if it is still open after `patience` seconds."""
        self._wait_for(lambda: self.end, patience)
        return self.end

    def answer(self, patience: float) -> dict | None:
        """The response to the request in the body, if it comes within this time."""
        self._wait_for(lambda: self.response() or self.end, patience)
        return self.response()

    def event_id(self, patience: float) -> str | None:
        """The last id of an event, once there is a message or an id."""
        self._wait_for(lambda: self.event_ids or self.messages or self.end, patience)
        return self.event_ids[-1] if self.event_ids else None

    def response(self) -> dict | None:
        """The response to the request in the body, if it has come."""
        return next((message for message in self.messages if "method" not in message), None)

    def _wait_for(self, what, patience: float) -> None:
        with self._changed:
            self._changed.wait_for(what, patience)

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as stream:
                end = self._read_response(stream)
        except (OSError, ValueError):
            end = "cut"
        with self._changed:
            self.end = self.end or end
            self._changed.notify_all()
        self._socket.close()

    def _read_response(self, stream) -> str:
        status = 100
        while status < 200:
            line = stream.readline()
            if not line:
                return "cut"
            status = int(line.split()[1])
            headers = {}
            while (line := stream.readline()) not in (b"\r\n", b"\n", b""):
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.strip().lower()] = value.strip()
        with self._changed:
            self.status, self.headers = status, headers
            self._changed.notify_all()
        end = "whole"
        if "chunked" in headers.get("transfer-encoding", ""):
            end = self._read_chunks(stream)
        elif "content-length" in headers:
            length = int(headers["content-length"])
            body = stream.read(length)
            self._take(body)
            end = "whole" if len(body) == length else "cut"
        elif status not in (202, 204):
            while body := stream.read1():
                self._take(body)
        if not self._is_stream():
            self._message(self._text)
        return end

    def _read_chunks(self, stream) -> str:
        while True:
            line = stream.readline()
            if not line.endswith(b"\n"):
                return "cut"
            size = int(line.split(b";")[0], 16)
            if size == 0:
                while stream.readline() not in (b"\r\n", b"\n", b""):
                    pass
                return "whole"
            chunk = stream.read(size)
            self._take(chunk)
            if len(chunk) < size or not stream.readline():
                return "cut"

    def _is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def _take(self, body: bytes) -> None:
        self._text += body
        if not self._is_stream():
            return
        text = self._text.replace(b"\r\n", b"\n")
        *events, self._text = text.split(b"\n\n")
        for event in events:
            fields = [line.partition(b":") for line in event.split(b"\n")]
            data = b"\n".join(value.removeprefix(b" ") for name, _, value in fields if name == b"data")
            ids = [value.removeprefix(b" ").decode() for name, _, value in fields if name == b"id"]
            with self._changed:
                self.event_ids += ids
                self._changed.notify_all()
            self._message(data)

    def _message(self, text: bytes) -> None:
        try:
            message = json.loads(text)
        except ValueError:
            return
        if isinstance(message, dict):
            with self._changed:
                self.messages.append(message)
                self._changed.notify_all()


def outcome(exchange: Exchange) -> str:
    """In a word or two what its caller has of it by now."""
    answer = exchange.response()
    if answer and "error" in answer:
        code = f"error {answer['error'].get('code')}"
        return code if exchange.status == 200 else f"{exchange.status}, {code}"
    if answer:
        content = (answer.get("result") or {}).get("content") or [{}]
        failed = " (isError)" if answer["result"].get("isError") else ""
        return f"answered {content[0].get('text', '')}{failed}".strip()
    if exchange.status and exchange.status >= 400:
        return str(exchange.status)
    return {None: "never ends", "whole": "ends", "cut": "cut off", "hung up": "hung up"}[exchange.end]


class Client:
    """What both eras share: a URL, how tools are called there, and every exchange, to be closed at the end."""

    def __init__(self, url: str, prefix: str = "") -> None:
        self.url = url
        self.prefix = prefix
        self.exchanges: list[Exchange] = []

    def call(self, ident: object, tool: str, work: str, progress: bool = False) -> Exchange:
        argument = "text" if tool == "echo" else "work"
        params = {"name": self.prefix + tool, "arguments": {argument: work}}
        if progress:
            params["_meta"] = {"progressToken": f"token of {work}"}
        return self.request(ident, "tools/call", params)

    def request(self, ident: object, method: str, params: dict) -> Exchange:
        raise NotImplementedError

    def hang_up(self) -> None:
        """Closes every socket, as a client that has ended."""
        for exchange in self.exchanges:
            exchange.hang_up()

    def _send(self, method: str, headers: dict[str, str], message: dict | None = None) -> Exchange:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode() if message else b""
        if message:
            headers = {"Content-Type": "application/json", **headers}
        exchange = Exchange(self.url, method, headers, body)
        self.exchanges.append(exchange)
        return exchange


class Legacy(Client):
    """A client with a handshake, in a session if the server makes one."""

    def __init__(self, url: str, prefix: str = "") -> None:
        super().__init__(url, prefix)
        self.session: str | None = None
        self.version: str | None = None

    def initialize(self, patience: float) -> str | None:
        """What went wrong, if something did."""
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}
        exchange = self.request("init", "initialize", params)
        answer = exchange.answer(patience)
        if not answer or "result" not in answer:
            return f"initialize: {outcome(exchange)}"
        self.version = answer["result"]["protocolVersion"]
        self.session = exchange.headers.get("mcp-session-id")
        self.notify("notifications/initialized").wait(patience)
        return None

    def request(self, ident: object, method: str, params: dict) -> Exchange:
        return self._post({"id": ident, "method": method, "params": params})

    def notify(self, method: str, params: dict | None = None) -> Exchange:
        return self._post({"method": method, **({"params": params} if params else {})})

    def cancel(self, ident: object) -> Exchange:
        return self.notify("notifications/cancelled", {"requestId": ident, "reason": "the caller gave up"})

    def listen(self, last_event_id: str | None = None) -> Exchange:
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        return self._send("GET", {"Accept": "text/event-stream", **headers, **self._headers()})

    def delete(self) -> Exchange:
        return self._send("DELETE", self._headers())

    def _post(self, message: dict) -> Exchange:
        return self._send("POST", {"Accept": "application/json, text/event-stream", **self._headers()}, message)

    def _headers(self) -> dict[str, str]:
        version = {"MCP-Protocol-Version": self.version} if self.version else {}
        return {**version, "Mcp-Session-Id": self.session} if self.session else version


class Modern(Client):
    """A client of 2026-07-28: no handshake, no session; hanging up is its cancel."""

    def request(self, ident: object, method: str, params: dict) -> Exchange:
        meta = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientInfo": INFO,
            f"{META}clientCapabilities": {},
            **params.get("_meta", {}),
        }
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            **({"Mcp-Name": params["name"]} if "name" in params else {}),
        }
        return self._send("POST", headers, {"id": ident, "method": method, "params": {**params, "_meta": meta}})
