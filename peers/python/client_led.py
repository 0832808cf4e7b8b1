"""An MCP client on the official Python SDK 2.x, led by its server (led.py): client_led.py [--modern].

In the handshake era, or in that of 2026-07-28.
"""

import json
import os
import sys

import anyio
import mcp_types as types
from led import led, obeys
from mcp import Client
from mcp.server.stdio import stdio_server


async def sampling(_context, params) -> types.CreateMessageResult:
    words = await obeys(**json.loads(params.messages[0].content.text))
    return types.CreateMessageResult(model="none", role="assistant", content=types.TextContent(type="text", text=words))


async def main() -> None:
    mode = "auto" if "--modern" in sys.argv else "legacy"
    # Lines on stdio are lines on stdio, whichever side one is.
    async with Client(stdio_server(), mode=mode, sampling_callback=sampling) as client:

        async def request(name: str, arguments: dict, timeout: float | None) -> str:
            result = await client.call_tool(name, arguments, read_timeout_seconds=timeout)
            return result.content[0].text

        await led(request)
        os._exit(0)


anyio.run(main)
