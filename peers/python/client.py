"""An MCP client on the official Python SDK: client.py [--legacy] SCENARIO -- SERVER COMMAND…"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from marks import marked
from mcp import Client, MCPError, StdioServerParameters

PATIENCE = int(os.environ.get("RESCIND_PATIENCE_MS", "10000")) / 1000
_begun = time.monotonic()
_lines = 0


def _line(**fields: object) -> None:
    global _lines
    fields = {"n": _lines, "ms": round((time.monotonic() - _begun) * 1000), **fields}
    os.write(1, (json.dumps(fields) + "\n").encode())
    _lines += 1


def did(what: str, **fields: object) -> None:
    """The caller's own act."""
    _line(did=what, **fields)


def saw(what: str, **fields: object) -> None:
    """Something that reached the caller."""
    _line(saw=what, **fields)


class Callbacks(logging.Handler):
    """The SDK has no error callback for stray messages: what it cannot place it logs."""

    def emit(self, record: logging.LogRecord) -> None:
        saw("callback", message=record.getMessage())


async def message_handler(message: object) -> None:
    if isinstance(message, Exception):
        saw("callback", message=str(message))


async def within(what: str, wait: Callable[[], Awaitable[object]]) -> bool:
    """Waits for what ends by its own event; patience only bounds the wait of one that never will."""
    with anyio.move_on_after(PATIENCE):
        await wait()
        return True
    saw("nothing", waiting_for=what)
    return False


async def until(what: str, condition: Callable[[], object]) -> bool:
    async def poll() -> None:
        while not condition():
            await anyio.sleep(0.005)

    return await within(what, poll)


class Call:
    """One call: started when made, its outcome printed when it settles."""

    def __init__(self, peer: "Peer", label: str, behaviour: str, tool: str | None = None, **options: object) -> None:
        did("call", call=label, behaviour=behaviour)
        self.label, self.peer = label, peer
        self.scope, self.settled = anyio.CancelScope(), anyio.Event()
        self.ticks, self._tick = 0, anyio.Event()
        peer.tasks.start_soon(self._run, tool or behaviour, {"work": label, **options})

    async def _progress(self, progress: float, _total: float | None, _message: str | None) -> None:
        self.ticks += 1
        saw("progress", call=self.label, tick=progress)
        self._tick.set()
        self._tick = anyio.Event()

    async def _run(self, tool: str, arguments: dict) -> None:
        try:
            with self.scope:
                result = await self.peer.client.call_tool(tool, arguments, progress_callback=self._progress)
                saw("result", call=self.label, value=result.content[0].text, cancelled=self.scope.cancel_called)
            if self.scope.cancelled_caught:
                saw("cancelled", call=self.label)
        except MCPError as error:
            saw("error", call=self.label, **error.error.model_dump(exclude_none=True), cancelled=self.scope.cancel_called)
        except Exception as error:  # what the caller sees is the point, whatever it is
            saw("error", call=self.label, message=repr(error), cancelled=self.scope.cancel_called)
        finally:
            self.settled.set()

    def cancel(self) -> None:
        did("cancel", call=self.label)
        self.scope.cancel()

    async def ticked(self, at: int) -> bool:
        async def enough() -> None:
            while self.ticks < at:
                await self._tick.wait()

        return await within(f"{self.label} tick {at}", enough)

    async def started(self) -> bool:
        return await until(f"{self.label} to start", lambda: marked(self.label, "started"))

    async def done(self) -> bool:
        return await within(f"{self.label} to settle", self.settled.wait)


class Peer:
    def __init__(self, client: Client, tasks: anyio.abc.TaskGroup) -> None:
        self.client, self.tasks = client, tasks

    async def barrier(self) -> None:
        """Round trips: what was sent before them has been acted on, what was sent to us is here."""
        for _ in range(3):
            await within("a round trip", lambda: self.client.call_tool("echo", {}))


async def cancel_in_flight(peer: Peer) -> None:
    call = Call(peer, "A", "obeys", report=10)
    await call.ticked(10)
    call.cancel()
    await until("A to stop", lambda: marked("A", "stopped"))
    await call.done()
    await Call(peer, "B", "echo").done()


async def ignored(peer: Peer) -> None:
    call = Call(peer, "A", "ignores", ticks=30, every_ms=20, hold=5)
    await call.ticked(5)
    call.cancel()
    await until("A to finish", lambda: marked("A", "finished"))
    await call.done()
    await Call(peer, "B", "echo").done()


async def late(peer: Peer) -> None:
    call = Call(peer, "A", "late")
    await call.started()
    call.cancel()
    await call.done()
    await until("A to be told", lambda: marked("A", "told"))
    await Call(peer, "release", "release", of="A").done()
    await Call(peer, "B", "echo").done()


async def mute(peer: Peer) -> None:
    call = Call(peer, "A", "mute")
    await call.started()
    call.cancel()
    await call.done()
    await Call(peer, "B", "echo").done()


async def killed(peer: Peer) -> None:
    cancelled, waiting = Call(peer, "A", "mute"), Call(peer, "B", "mute")
    await cancelled.started()
    await waiting.started()
    cancelled.cancel()
    await peer.barrier()
    did("kill")
    os.kill(marked("B", "started")["pid"], signal.SIGKILL)
    await waiting.done()
    await cancelled.done()


async def everything(peer: Peer) -> None:
    """server-everything's long operation, which goes on and reports progress whatever is cancelled."""
    tool = "trigger-long-running-operation"
    call = Call(peer, "A", "ignores", tool=tool, duration=3, steps=10)
    await call.ticked(3)
    call.cancel()
    await call.done()
    # Begun 0.9 s into A and half a second shorter than A in all: its end is a barrier after A's.
    await Call(peer, "B", "ignores", tool=tool, duration=2.5, steps=5).done()
    await Call(peer, "C", "echo", message="still here").done()


SCENARIOS = {
    "cancel-in-flight": cancel_in_flight,
    "ignored": ignored,
    "late": late,
    "mute": mute,
    "killed": killed,
    "everything": everything,
}


async def main() -> None:
    cut = sys.argv.index("--")
    *flags, scenario = sys.argv[1:cut]
    command, *args = sys.argv[cut + 1 :]
    logging.getLogger().addHandler(Callbacks())
    server = StdioServerParameters(command=command, args=args, env=dict(os.environ))
    mode = "legacy" if "--legacy" in flags else "auto"
    async with Client(server, mode=mode, message_handler=message_handler) as client:
        did("connected", revision=client.protocol_version)
        async with anyio.create_task_group() as tasks:
            await SCENARIOS[scenario](Peer(client, tasks))
            tasks.cancel_scope.cancel()
        did("close")
    did("end")


anyio.run(main)
