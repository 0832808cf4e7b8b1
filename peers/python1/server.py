"""An MCP server on the official Python SDK 1.x whose tools do what ../node/common/work.mjs says."""

import os
import sys

import anyio
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

sys.path.append(os.path.join(os.path.dirname(__file__), "../python"))
from led import obeys  # noqa: E402
from marks import mark  # noqa: E402

server = Server("rescind-peer", version="1.0.0")
held: dict[str, tuple[anyio.Event, anyio.Event]] = {}
answers = None


async def late(work: str) -> str:
    """Answers when released, cancelled or not: past the SDK, which has answered a cancelled request already."""
    released, answered = held[work] = anyio.Event(), anyio.Event()
    request = server.request_context.request_id
    mark(work, "started")
    try:
        await released.wait()
    except anyio.get_cancelled_exc_class():
        mark(work, "told")
        with anyio.CancelScope(shield=True):
            await released.wait()
            result = {"content": [{"type": "text", "text": "late answer"}]}
            answer = types.JSONRPCResponse(jsonrpc="2.0", id=request, result=result)
            await answers.send(SessionMessage(types.JSONRPCMessage(answer)))
            mark(work, "answered")
            answered.set()
        raise
    return "late answer"


async def release(of: str, **_) -> str:
    released, answered = held[of]
    released.set()
    await answered.wait()
    return "released"


async def asks(work: str, question: str, **_) -> str:
    mark(work, "started")
    text = types.TextContent(type="text", text=question)
    try:
        await server.request_context.session.create_message(
            [types.SamplingMessage(role="user", content=text)], max_tokens=1
        )
    except anyio.get_cancelled_exc_class():
        mark(work, "told")
        raise
    mark(work, "finished")
    return "finished"


async def echo(**_) -> str:
    return "echo"


# Past the decorator for tools, which would list them first: what is called here is known.
async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
    tool = {"echo": echo, "obeys": obeys, "late": late, "release": release, "asks": asks}[request.params.name]
    words = await tool(**(request.params.arguments or {}))
    return types.ServerResult(types.CallToolResult(content=[types.TextContent(type="text", text=words)]))


server.request_handlers[types.CallToolRequest] = call_tool


async def main() -> None:
    global answers
    async with stdio_server() as (read, write):
        answers = write
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
