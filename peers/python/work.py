"""Work of ../node/common/work.mjs that both Python SDKs do alike, and where they listen."""

import socket
import sys

import anyio
from marks import mark, marked


async def waits(work: str, **_) -> str:
    """Says nothing; finishes when a mark releases it, stops when it is cancelled."""
    mark(work, "started")
    try:
        while not marked(work, "released"):
            await anyio.sleep(0.005)
    except anyio.get_cancelled_exc_class():
        mark(work, "stopped")
        raise
    mark(work, "finished")
    return "finished"


def filled(size: int) -> str:
    return "x" * size


def listener() -> socket.socket:
    """A free port of the loopback, which it says on stderr."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    return listener
