"""An MCP client on the official Python SDK 1.x, with --newest as one that knows no later revision:
client.py [--newest REVISION] SCENARIO… (-- SERVER COMMAND… | --url URL)"""

import os
import sys
from datetime import timedelta

import anyio
import mcp.types as types
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

sys.path.append(os.path.join(os.path.dirname(__file__), "../python"))
from revisions import know_only  # noqa: E402
from scenarios import Peer, command_line, did, message_handler, play, saw  # noqa: E402


async def sampling(_context: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    saw("asked", question=params.messages[0].content.text)
    answer = types.TextContent(type="text", text="an answer")
    return types.CreateMessageResult(model="none", role="assistant", content=answer)


class Python1(Peer):
    # The SDK tells nobody.
    tells_limits = False

    def __init__(self, session: ClientSession, tasks: anyio.abc.TaskGroup) -> None:
        super().__init__(tasks)
        self.session = session

    async def call(self, tool, arguments, on_progress, token, limit) -> str:
        # The id is told nowhere else, and a call is cancelled by it.
        token["id"] = self.session._request_id
        limit = limit and timedelta(seconds=limit)
        result = await self.session.call_tool(
            tool, arguments, progress_callback=on_progress, read_timeout_seconds=limit
        )
        return result.content[0].text

    async def ask(self, method, params) -> dict:
        request = types.ClientRequest.model_validate({"method": method, "params": params})
        result = await self.session.send_request(request, types.Result)
        return result.model_dump(by_alias=True)

    def offers_tasks(self) -> bool:
        return self.session.get_server_capabilities().tasks is not None

    async def cancelled(self, token: dict) -> None:
        """The SDK tells nobody that a call was cancelled."""
        params = types.CancelledNotificationParams(requestId=token["id"], reason="user pressed Stop")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))

    def error(self, error: Exception) -> dict | None:
        return error.error.model_dump(exclude_none=True) if isinstance(error, McpError) else None


async def main() -> None:
    words, url, command = command_line()
    know_only(words)
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
