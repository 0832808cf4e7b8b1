"""MCP clients on the official Python SDKs, on their own stdio, led by their server as node/common/led.mjs says.

The SDK of python/ (2.x) and that of python1/ (1.x) differ in how a client is made; led.py in each makes it.
"""

import json
import logging
from collections.abc import Awaitable, Callable

import anyio
from marks import mark


class Complaints(logging.Handler):
    """The SDK has no error callback for stray messages: what it cannot place it logs."""

    def emit(self, record: logging.LogRecord) -> None:
        mark("sdk", "complaint", message=record.getMessage())


async def obeys(work: str, ticks: int = 300, every_ms: int = 100, **_) -> str:
    """Work that a server asks for: runs for thirty seconds, or until it is cancelled."""
    mark(work, "started")
    try:
        for _tick in range(ticks):
            await anyio.sleep(every_ms / 1000)
    except anyio.get_cancelled_exc_class():
        mark(work, "stopped")
        raise
    mark(work, "finished")
    return "finished"


async def led(request: Callable[[str, dict, float | None], Awaitable[str]]) -> None:
    """Calls `next` and does what it is told, until it is told to end."""
    logging.getLogger().addHandler(Complaints(logging.WARNING))
    scopes: dict[str, anyio.CancelScope] = {}

    async def call(work: str, behaviour: str, timeout_ms: float | None) -> None:
        try:
            with scopes[work]:
                mark(work, "result", value=await request(behaviour, {"work": work}, timeout_ms and timeout_ms / 1000))
            if scopes[work].cancelled_caught:
                mark(work, "cancelled")
        except Exception as error:  # what the caller sees is the point, whatever it is
            mark(work, "error", message=str(error))

    async with anyio.create_task_group() as tasks:
        while (order := json.loads(await request("next", {}, None)))["do"] != "end":
            work = order["work"]
            if order["do"] == "call":
                scopes[work] = anyio.CancelScope()
                tasks.start_soon(call, work, order["behaviour"], order.get("timeout_ms"))
            else:
                scopes[work].cancel()
        tasks.cancel_scope.cancel()
