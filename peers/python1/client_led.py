"""An MCP client on the official Python SDK 1.x, led by its server (../python/led.py)."""

import json
import os
import sys
from datetime import timedelta

import anyio
import mcp.types as types
from mcp import ClientSession
from mcp.server.stdio import stdio_server

sys.path.append(os.path.join(os.path.dirname(__file__), "../python"))
from led import led, obeys  # noqa: E402


async def sampling(_context, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    words = await obeys(**json.loads(params.messages[0].content.text))
    return types.CreateMessageResult(model="none", role="assistant", content=types.TextContent(type="text", text=words))


async def main() -> None:
    # Lines on stdio are lines on stdio, whichever side one is.
    async with stdio_server() as (read, write), ClientSession(read, write, sampling_callback=sampling) as client:
        await client.initialize()

        async def request(name: str, arguments: dict, timeout: float | None) -> str:
            limit = timedelta(seconds=timeout) if timeout else None
            result = await client.call_tool(name, arguments, limit)
            return result.content[0].text

        await led(request)
        os._exit(0)


anyio.run(main)
