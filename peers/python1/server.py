"""An MCP server on the official Python SDK 1.x whose tools do what ../node/common/work.mjs says, with --newest as one that
knows no later revision: server.py [--newest REVISION] [--http]"""

import os
import sys

import anyio
import mcp.types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import SessionMessage

sys.path.append(os.path.join(os.path.dirname(__file__), "../python"))
from marks import mark  # noqa: E402
from revisions import know_only  # noqa: E402
from work import filled, listener, waits  # noqa: E402

server = Server("rescind-peer", version="1.0.0")
held: dict[str, tuple[anyio.Event, anyio.Event]] = {}
answers = None


async def progress(tick: int, ticks: int) -> None:
    context = server.request_context
    token = context.meta and context.meta.progressToken
    if token is not None:
        await context.session.send_progress_notification(token, tick, ticks, related_request_id=context.request_id)


async def obeys(work: str, ticks: int = 300, every_ms: int = 100, report: int = 300) -> str:
    mark(work, "started")
    try:
        for tick in range(1, ticks + 1):
            await anyio.sleep(every_ms / 1000)
            mark(work, "progress", tick=tick)
            if tick <= report:
                await progress(tick, ticks)
    except anyio.get_cancelled_exc_class():
        mark(work, "stopped")
        raise
    mark(work, "finished")
    return "finished"


async def fills(work: str, size: int, report: int = 0) -> str:
    for tick in range(1, report + 1):
        await progress(tick, report)
    return filled(size)


async def late(work: str, **_) -> str:
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


TOOLS = {"echo": echo, "obeys": obeys, "waits": waits, "fills": fills, "late": late, "release": release, "asks": asks}


async def list_tools(_request: types.ListToolsRequest) -> types.ServerResult:
    tools = [types.Tool(name=name, inputSchema={"type": "object"}) for name in TOOLS]
    return types.ServerResult(types.ListToolsResult(tools=tools))


# Past the decorator for tools, which would list them first: what is called here is known.
async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
    words = await TOOLS[request.params.name](**(request.params.arguments or {}))
    return types.ServerResult(types.CallToolResult(content=[types.TextContent(type="text", text=words)]))


server.request_handlers[types.ListToolsRequest] = list_tools
server.request_handlers[types.CallToolRequest] = call_tool


async def serve_http() -> None:
    manager = StreamableHTTPSessionManager(app=server)

    async def app(scope, receive, send) -> None:
        await manager.handle_request(scope, receive, send)

    async with manager.run():
        await uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off")).serve(sockets=[listener()])


async def main() -> None:
    global answers
    know_only(sys.argv)
    if "--http" in sys.argv:
        return await serve_http()
    async with stdio_server() as (read, write):
        answers = write
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
