"""The scenarios of ../node/common/scenarios.mjs, once for both Python SDKs: client.py in python/ and python1/ make the peer.

A peer has:
  call(tool, arguments, on_progress, token, limit)   the text of the result; `token` is what `cancelled` is given,
                    `limit` is the client's own, in seconds
  ask(method, params)                         the members of the result of any request
  offers_tasks()                              whether the server has said that it makes tasks of calls (2025-11-25)
  tells_limits                                whether the server hears of a call whose limit was over
  cancelled(token)                            tells the server of a cancel, where the SDK does not
  subscribe()                                 of 2026-07-28: a context of an async iterator of changes
  error(error)                                the members of the SDK's own error, or None if it is none
"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable

import anyio
from marks import mark, marked

PATIENCE = int(os.environ.get("RESCIND_PATIENCE_MS", "10000")) / 1000
LARGE = 1 << 20
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
    """One call: started when made, its outcome printed when it settles. With `quiet` it asks for no progress."""

    def __init__(
        self,
        peer: "Peer",
        label: str,
        behaviour: str,
        tool: str | None = None,
        quiet: bool = False,
        show: Callable[[str], str] = str,
        limit: float | None = None,
        **options: object,
    ) -> None:
        did("call", call=label, behaviour=behaviour)
        self.label, self.peer, self.quiet, self.show, self.limit = label, peer, quiet, show, limit
        self.scope, self.settled = anyio.CancelScope(), anyio.Event()
        self.ticks, self._tick = 0, anyio.Event()
        self.token: dict = {}
        peer.tasks.start_soon(self._run, tool or behaviour, {"work": label, **options})

    async def _progress(self, progress: float, _total: float | None, _message: str | None) -> None:
        self.ticks += 1
        saw("progress", call=self.label, tick=progress)
        self._tick.set()
        self._tick = anyio.Event()

    async def _run(self, tool: str, arguments: dict) -> None:
        on_progress = None if self.quiet else self._progress
        try:
            with self.scope:
                value = await self.peer.call(tool, arguments, on_progress, self.token, self.limit)
                saw("result", call=self.label, value=self.show(value), cancelled=self.scope.cancel_called)
            if self.scope.cancelled_caught:
                saw("cancelled", call=self.label)
        except Exception as error:  # what the caller sees is the point, whatever it is
            members = self.peer.error(error) or {"message": repr(error)}
            saw("error", call=self.label, **members, cancelled=self.scope.cancel_called)
        finally:
            self.settled.set()

    async def cancel(self) -> None:
        did("cancel", call=self.label)
        await self.peer.cancelled(self.token)
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
    """What an SDK's client.py makes of its SDK. Its tasks outlive its connection."""

    tells_limits = True

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self.tasks = tasks

    async def cancelled(self, token: dict) -> None:
        pass

    async def barrier(self) -> None:
        """Round trips: what was sent before them has been acted on, what was sent to us is here."""
        for _ in range(3):
            await within("a round trip", lambda: self.call("echo", {}, None, {}, None))


async def echo(peer: Peer, label: str) -> None:
    await Call(peer, label, "echo", quiet=True).done()


async def cancel_in_flight(peer: Peer) -> None:
    call = Call(peer, "A", "obeys", report=10)
    await call.ticked(10)
    await call.cancel()
    await until("A to stop", lambda: marked("A", "stopped"))
    await call.done()
    await echo(peer, "B")


async def ignored(peer: Peer) -> None:
    call = Call(peer, "A", "ignores", ticks=30, every_ms=20, hold=5)
    await call.ticked(5)
    await call.cancel()
    await until("A to finish", lambda: marked("A", "finished"))
    await call.done()
    await echo(peer, "B")


async def late(peer: Peer) -> None:
    call = Call(peer, "A", "late")
    await call.started()
    await call.cancel()
    await call.done()
    await until("A to be told", lambda: marked("A", "told"))
    await Call(peer, "release", "release", of="A").done()
    await echo(peer, "B")


async def mute(peer: Peer) -> None:
    call = Call(peer, "A", "mute")
    await call.started()
    await call.cancel()
    await call.done()
    await echo(peer, "B")


async def killed(peer: Peer) -> None:
    cancelled, waiting = Call(peer, "A", "mute"), Call(peer, "B", "mute")
    await cancelled.started()
    await waiting.started()
    await cancelled.cancel()
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
    await call.cancel()
    await call.done()
    # Begun 0.9 s into A and half a second shorter than A in all: its end is a barrier after A's.
    await Call(peer, "B", "ignores", tool=tool, duration=2.5, steps=5).done()
    await Call(peer, "C", "echo", message="still here").done()


async def _cancelled(peer: Peer, call: Call, is_due: Awaitable[bool]) -> None:
    """Cancels once it is due, and sees that the work stops. Another call works."""
    await is_due
    await call.cancel()
    await until(f"{call.label} to stop", lambda: marked(call.label, "stopped"))
    await call.done()
    await echo(peer, f"after {call.label}")


async def progress(peer: Peer) -> None:
    await Call(peer, "progress", "obeys", ticks=50, every_ms=10, report=3).done()


async def silent(peer: Peer) -> None:
    call = Call(peer, "silent", "waits", quiet=True)
    await _cancelled(peer, call, call.started())


async def ticking(peer: Peer) -> None:
    call = Call(peer, "ticking", "obeys", every_ms=10, report=3)
    await _cancelled(peer, call, call.ticked(3))


async def late_answer(peer: Peer) -> None:
    call = Call(peer, "late", "late", quiet=True)
    await call.started()
    await call.cancel()
    await call.done()
    await until("late to be told", lambda: marked("late", "told"))
    await Call(peer, "release", "release", quiet=True, of="late").done()
    await echo(peer, "after late")


async def timeout(peer: Peer) -> None:
    """The client's own limit. One that was over before the work had started shows nothing: then again, with a longer one."""
    limit = 0.4
    while not marked("timeout", "started"):
        await Call(peer, "timeout", "waits", quiet=True, limit=limit).done()
        limit *= 4
    end = "stopped" if peer.tells_limits else "finished"
    if not peer.tells_limits:
        mark("timeout", "released")
    await until("the end of timeout", lambda: marked("timeout", end))
    await echo(peer, "after timeout")


async def task(peer: Peer) -> None:
    """A call becomes a task before a server that offers tasks. Where none are offered, a request of theirs is refused."""

    async def step(label: str, method: str, params: dict) -> dict | None:
        did("call", call=label, behaviour=method)
        try:
            result = await peer.ask(method, params)
        except Exception as error:  # what the caller sees is the point, whatever it is
            saw("error", call=label, **(peer.error(error) or {"message": repr(error)}))
            return None
        members = result.get("task", result)
        saw("result", call=label, value=members.get("status"))
        return members

    if not peer.offers_tasks():
        await step("task refused", "tasks/get", {"taskId": "none"})
        return
    call = {"name": "waits", "arguments": {"work": "task"}, "task": {"ttl": 600_000}}
    created = await step("task", "tools/call", call)
    if created is None:
        return
    await until("task to start", lambda: marked("task", "started"))
    await step("task now", "tasks/get", {"taskId": created["taskId"]})
    await step("task cancelled", "tasks/cancel", {"taskId": created["taskId"]})
    await until("task to stop", lambda: marked("task", "stopped"))
    await echo(peer, "after task")


def _length(text: str) -> str:
    return f"{len(text)} letters"


async def large(peer: Peer) -> None:
    await Call(peer, "large", "fills", quiet=True, show=_length, size=LARGE).done()


async def large_event(peer: Peer) -> None:
    await Call(peer, "large event", "fills", show=_length, size=LARGE, report=1).done()


async def asks(peer: Peer) -> None:
    await Call(peer, "asks", "asks", quiet=True, question="name?").done()


async def subscription(peer: Peer) -> None:
    did("call", call="subscription")
    try:
        async with peer.subscribe() as changes:
            await Call(peer, "changes", "changes", quiet=True).done()
            if await within("a change", lambda: anext(changes)):
                saw("result", call="subscription", value="changed")
            did("cancel", call="subscription")
    except Exception as error:
        saw("error", call="subscription", message=repr(error))
        return
    await echo(peer, "after subscription")


async def returns(peer: Peer) -> None:
    """For clients that ask for the stream of a call that they cancelled: whoever watches the wire marks the refusal."""
    await until("the refusal of a cancelled stream", lambda: marked("wire", "refused"))


async def closing(peer: Peer) -> None:
    """Last on its connection, which is closed with the call in flight."""
    await Call(peer, "closing", "waits", quiet=True).started()


async def death(peer: Peer) -> None:
    """Last on its connection: its server is killed with a call in flight."""
    call = Call(peer, "death", "waits", quiet=True)
    await call.started()
    did("kill")
    os.kill(marked("death", "started")["pid"], signal.SIGKILL)
    await call.done()


async def one(peer: Peer) -> None:
    """Played at once with `other`, each first on its connection: so the two calls have one id."""
    call = Call(peer, "one", "waits", quiet=True)
    await until("both to start", lambda: marked("one", "started") and marked("other", "started"))
    await call.cancel()
    await until("one to stop", lambda: marked("one", "stopped"))
    await call.done()
    await echo(peer, "after one")


async def other(peer: Peer) -> None:
    call = Call(peer, "other", "waits", quiet=True)
    await until("one to stop", lambda: marked("one", "stopped"))
    await echo(peer, "after one")
    mark("other", "released")
    await call.done()


async def hang_up(peer: Peer) -> None:
    """Ends its own process, as whoever kills a client does: with a call of which nothing was seen, and one with progress."""
    ticking = Call(peer, "hang-up ticking", "obeys", every_ms=10, report=3)
    await Call(peer, "hang-up", "waits", quiet=True).started()
    await ticking.ticked(3)
    os.kill(os.getpid(), signal.SIGKILL)


SCENARIOS = {
    "cancel-in-flight": cancel_in_flight,
    "ignored": ignored,
    "late": late,
    "mute": mute,
    "killed": killed,
    "everything": everything,
    "progress": progress,
    "silent": silent,
    "ticking": ticking,
    "late-answer": late_answer,
    "timeout": timeout,
    "task": task,
    "death": death,
    "large": large,
    "large-event": large_event,
    "asks": asks,
    "subscription": subscription,
    "returns": returns,
    "closing": closing,
    "one": one,
    "other": other,
    "hang-up": hang_up,
}


async def play(peer: Peer, names: list[str]) -> None:
    """Runs scenarios one after the other."""
    for name in names:
        await SCENARIOS[name](peer)
    did("close")


def command_line() -> tuple[list[str], str | None, list[str]]:
    """Splits `[FLAGS] SCENARIO… -- COMMAND…` or `[FLAGS] SCENARIO… --url URL`: words, URL, command."""
    logging.getLogger().addHandler(Callbacks(logging.WARNING))
    words = sys.argv[1:]
    if words[-2:-1] == ["--url"]:
        return words[:-2], words[-1], []
    cut = words.index("--")
    return words[:cut], None, words[cut + 1 :]
