"""An MCP client on the official Python SDK 1.x: client.py SCENARIO… (-- SERVER COMMAND… | --url URL)"""

import os
import sys

import anyio
import mcp.types as types
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

sys.path.append(os.path.join(os.path.dirname(__file__), "../python"))
from scenarios import Peer, command_line, did, message_handler, play, saw  # noqa: E402


async def sampling(_context: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    saw("asked", question=params.messages[0].content.text)
    answer = types.TextContent(type="text", text="an answer")
    return types.CreateMessageResult(model="none", role="assistant", content=answer)


class Python1(Peer):
    def __init__(self, session: ClientSession, tasks: anyio.abc.TaskGroup) -> None:
        super().__init__(tasks)
        self.session = session

    async def call(self, tool, arguments, on_progress, token) -> str:
        # The id is told nowhere else, and a call is cancelled by it.
        token["id"] = self.session._request_id
        result = await self.session.call_tool(tool, arguments, progress_callback=on_progress)
        return result.content[0].text

    async def cancelled(self, token: dict) -> None:
        """The SDK tells nobody that a call was cancelled."""
        params = types.CancelledNotificationParams(requestId=token["id"], reason="user pressed Stop")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))

    def error(self, error: Exception) -> dict | None:
        return error.error.model_dump(exclude_none=True) if isinstance(error, McpError) else None


async def main() -> None:
    words, url, command = command_line()
    if url:
        transport = streamable_http_client(url)
    else:
        transport = stdio_client(StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ)))
    async with anyio.create_task_group() as tasks:
        async with (
            transport as (read, write, *_),
            ClientSession(read, write, sampling_callback=sampling, message_handler=message_handler) as session,
        ):
            result = await session.initialize()
            did("connected", revision=result.protocolVersion)
            await play(Python1(session, tasks), words)
        tasks.cancel_scope.cancel()
    did("end")


anyio.run(main)
