"""An MCP client on the official Python SDK 2.x, in the newest era that its server speaks, or by --legacy in that of the
handshake: client.py [--legacy] SCENARIO… (-- SERVER COMMAND… | --url URL)"""

import os
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from pydantic import TypeAdapter
from scenarios import Peer, command_line, did, message_handler, play, saw


async def sampling(_context: object, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    saw("asked", question=params.messages[0].content.text)
    answer = types.TextContent(type="text", text="an answer")
    return types.CreateMessageResult(model="none", role="assistant", content=answer)


class Ask(types.Request[dict, str]):
    """Any request; one of a task is named by the task, which is repeated in a header."""

    name_param = "taskId"


class Python2(Peer):
    def __init__(self, client: Client, tasks: anyio.abc.TaskGroup) -> None:
        super().__init__(tasks)
        self.client = client

    async def call(self, tool, arguments, on_progress, _token, limit) -> str:
        result = await self.client.call_tool(
            tool, arguments, progress_callback=on_progress, read_timeout_seconds=limit
        )
        return result.content[0].text

    async def ask(self, method, params) -> dict:
        return await self.client.session.send_request(Ask(method=method, params=params), TypeAdapter(dict))

    def offers_tasks(self) -> bool:
        return getattr(self.client.server_capabilities, "tasks", None) is not None

    @asynccontextmanager
    async def subscribe(self):
        async with self.client.listen(tools_list_changed=True) as changes:
            yield changes

    def error(self, error: Exception) -> dict | None:
        return error.error.model_dump(exclude_none=True) if isinstance(error, MCPError) else None


async def main() -> None:
    words, url, command = command_line()
    mode = "legacy" if "--legacy" in words else "auto"
    names = [word for word in words if word != "--legacy"]
    server = url or StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with anyio.create_task_group() as tasks:
        async with Client(server, mode=mode, message_handler=message_handler, sampling_callback=sampling) as client:
            did("connected", revision=client.protocol_version)
            await play(Python2(client, tasks), names)
        tasks.cancel_scope.cancel()
    did("end")


anyio.run(main)
