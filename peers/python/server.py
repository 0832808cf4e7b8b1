"""An MCP server on the official Python SDK whose tools do what node/common/work.mjs says: server.py [--http]"""

import os
import signal
import sys

import anyio
import mcp_types as types
import uvicorn
from marks import mark
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import ToolsListChanged
from work import filled, listener, waits

TOOLS = ["echo", "obeys", "waits", "fills", "ignores", "mute", "late", "asks", "changes", "release", "dies"]
bus = InMemorySubscriptionBus()
held: dict[str, tuple[anyio.Event, anyio.Event]] = {}
answers = None


def text(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)])


async def list_tools(_ctx, _params) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in TOOLS])


async def ticking(ctx, work: str, first: int, ticks: int, every_ms: int, report: int) -> None:
    for tick in range(first, ticks + 1):
        await anyio.sleep(every_ms / 1000)
        mark(work, "progress", tick=tick)
        if tick <= report:
            await ctx.session.report_progress(tick, ticks)


def finished(work: str) -> types.CallToolResult:
    mark(work, "finished")
    return text("finished")


async def obeys(ctx, work: str, ticks: int = 300, every_ms: int = 100, report: int = 300) -> types.CallToolResult:
    mark(work, "started")
    try:
        await ticking(ctx, work, 1, ticks, every_ms, report)
    except anyio.get_cancelled_exc_class():
        mark(work, "stopped")
        raise
    return finished(work)


async def ignores(ctx, work: str, ticks: int, every_ms: int, hold: int) -> types.CallToolResult:
    """Waits at tick `hold` until it is cancelled, and then ticks on to its end."""
    mark(work, "started")
    try:
        await ticking(ctx, work, 1, hold, every_ms, hold)
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        mark(work, "told")
    with anyio.CancelScope(shield=True):
        await ticking(ctx, work, hold + 1, ticks, every_ms, ticks)
    return finished(work)


async def mute(_ctx, work: str, **_) -> types.CallToolResult:
    mark(work, "started")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        mark(work, "told")
        raise


async def late(ctx, work: str, **_) -> types.CallToolResult:
    """Answers when released, cancelled or not: past the SDK, which withholds the answer of a cancelled request."""
    released, answered = held[work] = anyio.Event(), anyio.Event()
    mark(work, "started")
    try:
        await released.wait()
    except anyio.get_cancelled_exc_class():
        mark(work, "told")
        with anyio.CancelScope(shield=True):
            await released.wait()
            result = text("late answer").model_dump(by_alias=True, mode="json", exclude_none=True)
            await answers.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=ctx.request_id, result=result)))
            mark(work, "answered")
            answered.set()
        raise
    mark(work, "answered")
    answered.set()
    return text("late answer")


async def release(_ctx, of: str, **_) -> types.CallToolResult:
    released, answered = held[of]
    released.set()
    await answered.wait()
    return text("released")


async def asks(ctx, work: str, question: str, **_) -> types.CallToolResult:
    """Asks the caller `question` and waits for the answer."""
    mark(work, "started")
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=question))
    try:
        await ctx.session.create_message([message], max_tokens=1, related_request_id=ctx.request_id)
    except anyio.get_cancelled_exc_class():
        mark(work, "told")
        raise
    return finished(work)


async def fills(ctx, work: str, size: int, report: int = 0) -> types.CallToolResult:
    for tick in range(1, report + 1):
        await ctx.session.report_progress(tick, report)
    return text(filled(size))


async def changes(_ctx, **_) -> types.CallToolResult:
    await bus.publish(ToolsListChanged())
    return text("changed")


async def listen(ctx, params: types.SubscriptionsListenRequestParams) -> types.SubscriptionsListenResult:
    mark("subscription", "started")
    try:
        return await ListenHandler(bus)(ctx, params)
    except anyio.get_cancelled_exc_class():
        mark("subscription", "stopped")
        raise


async def dies(_ctx, work: str, **_) -> types.CallToolResult:
    mark(work, "started")
    os.kill(os.getpid(), signal.SIGKILL)


async def call_tool(ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name == "echo":
        return text("echo")
    if params.name == "waits":
        return text(await waits(**params.arguments))
    tool = {"obeys": obeys, "ignores": ignores, "mute": mute, "late": late, "fills": fills}
    tool |= {"asks": asks, "changes": changes, "release": release, "dies": dies}
    return await tool[params.name](ctx, **(params.arguments or {}))


async def main() -> None:
    global answers
    handlers = {"on_list_tools": list_tools, "on_call_tool": call_tool, "on_subscriptions_listen": listen}
    server = Server("rescind-peer", version="1.0.0", **handlers)
    if "--http" in sys.argv:
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        return await uvicorn.Server(config).serve(sockets=[listener()])
    async with stdio_server() as (read, write):
        answers = write
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
