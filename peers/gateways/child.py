"""An MCP server on stdio, raw frames and no SDK: the child behind each gateway, which tells all that becomes of it.

It answers no request that was cancelled (MCP-C06), ends at the end of its input, and appends JSON lines to the file
named by RESCIND_MARKS: every frame it reads, and what its work did. The work is named by an argument of the call, so
that what a cancel hit does not depend on ids. RESCIND_ERA is `legacy`, `modern` or `both`. With RESCIND_BUSY it lets
work in flight end before it ends at the end of its input, as many servers do; SIGTERM ends it all the same.

Tools: `echo` answers `text` and the pid. `hang` works until it is cancelled. `slow` answers once the file named by
RESCIND_MARKS, a dot and the work is there. A call with a progress token is told of its progress once, at its start.
"""

import json
import os
import signal
import sys
import threading

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26")
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
ERA = os.environ.get("RESCIND_ERA", "both")
MARKS = os.environ["RESCIND_MARKS"]
BUSY = bool(os.environ.get("RESCIND_BUSY"))
TICK = 0.01  # seconds between two looks at whether the work is released

_marks = os.open(MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
_lock = threading.Lock()
_threads: list[threading.Thread] = []
_in_flight: dict = {}  # by the id of a call: its work, and the event that stops it
_fate = threading.Lock()  # work is stopped or finished, and marks it, under this lock


def mark(event: str, **fields: object) -> None:
    line = json.dumps({"event": event, "pid": os.getpid(), **fields}) + "\n"
    os.write(_marks, line.encode())


def end(reason: str) -> None:
    mark("ended", reason=reason)
    os._exit(0)


def write(message: dict) -> None:
    line = (json.dumps({"jsonrpc": "2.0", **message}) + "\n").encode()
    with _lock:
        try:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        except OSError:
            mark("unread", frame=message)


class Rejection(Exception):
    """An error response: its code, its words, its data."""


def tool(name: str, argument: str) -> dict:
    properties = {argument: {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": [argument]}
    return {"name": name, "description": f"the work of {name}", "inputSchema": schema}


TOOLS = [tool("echo", "text"), tool("hang", "work"), tool("slow", "work")]
CAPABILITIES = {"tools": {}}
INFO = {"name": "child", "version": "1"}
CACHE = {"ttlMs": 0, "cacheScope": "private"}


def is_modern(method: str, params: dict) -> bool:
    """Whether the request is of 2026-07-28; rejects one of an era that is not served."""
    version = params.get("_meta", {}).get(f"{META}protocolVersion")
    if ERA == "legacy":
        if method == "server/discover":
            raise Rejection(-32601, "Method not found")
        return False
    if version not in (None, MODERN) or (ERA == "modern" and version is None):
        supported = [MODERN] if ERA == "modern" else [MODERN, *LEGACY]
        raise Rejection(-32022, "Unsupported protocol version", {"supported": supported, "requested": str(version)})
    return version == MODERN


def text(said: str) -> dict:
    return {"content": [{"type": "text", "text": said}], "isError": False}


def answer(ident: object, modern: bool, result: dict) -> None:
    write({"id": ident, "result": {"resultType": "complete", **result} if modern else result})


def serve(ident: object, method: str, params: dict) -> None:
    modern = is_modern(method, params)
    if method == "server/discover":
        versions = [MODERN] if ERA == "modern" else [MODERN, *LEGACY]
        meta = {f"{META}serverInfo": INFO}
        result = {"supportedVersions": versions, "capabilities": CAPABILITIES, "_meta": meta, **CACHE}
        answer(ident, True, result)
    elif method == "initialize" and not modern:
        asked = params.get("protocolVersion")
        version = asked if asked in LEGACY else LEGACY[0]
        answer(ident, False, {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": INFO})
    elif method == "ping" and not modern:
        answer(ident, False, {})
    elif method == "tools/list":
        answer(ident, modern, {"tools": TOOLS, **(CACHE if modern else {})})
    elif method == "tools/call":
        call(ident, modern, params)
    else:
        raise Rejection(-32601, "Method not found")


def call(ident: object, modern: bool, params: dict) -> None:
    name, arguments = params.get("name"), params.get("arguments") or {}
    if name == "echo":
        answer(ident, modern, text(f"{arguments.get('text')} {os.getpid()}"))
        return
    if name not in ("hang", "slow") or "work" not in arguments:
        raise Rejection(-32602, f"no such tool, or no work: {name}")
    work = arguments["work"]
    stop = threading.Event()
    _in_flight[json.dumps(ident)] = (work, stop)
    mark("started", work=work, id=ident, modern=modern)
    token = params.get("_meta", {}).get("progressToken")
    if token is not None:
        progress = {"progressToken": token, "progress": 1, "message": work}
        write({"method": "notifications/progress", "params": progress})
    release = f"{MARKS}.{work}" if name == "slow" else None
    _threads.append(threading.Thread(target=labour, args=(ident, modern, work, release, stop), daemon=True))
    _threads[-1].start()


def labour(ident: object, modern: bool, work: str, release: str | None, stop: threading.Event) -> None:
    while not stop.wait(TICK if release else None):
        if not os.path.exists(release):
            continue
        with _fate:
            if stop.is_set():
                return
            if _in_flight.get(json.dumps(ident)) == (work, stop):
                del _in_flight[json.dumps(ident)]
            mark("finished", work=work, id=ident)
        answer(ident, modern, text(work))
        return


def cancel(ident: object) -> None:
    """Marked at once: the end of the input may come next."""
    with _fate:
        work, stop = _in_flight.pop(json.dumps(ident), (None, None))
        if stop:
            stop.set()
            mark("stopped", work=work, id=ident)


def handle(line: bytes) -> None:
    try:
        frame = json.loads(line)
    except ValueError:
        mark("frame", malformed=line.decode(errors="replace"))
        return
    mark("frame", frame=frame)
    for message in frame if isinstance(frame, list) else [frame]:
        method, params = message.get("method"), message.get("params") or {}
        if method == "notifications/cancelled":
            cancel(params.get("requestId"))
        elif method and "id" in message:
            try:
                serve(message["id"], method, params)
            except Rejection as rejection:
                code, words, *data = rejection.args
                error = {"code": code, "message": words, **({"data": data[0]} if data else {})}
                write({"id": message["id"], "error": error})


def main() -> None:
    mark("pid")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: end(signal.Signals(received).name))
    for line in sys.stdin.buffer:
        handle(line)
    mark("eof")
    for work in _threads if BUSY else []:
        work.join()
    end("eof")


main()
