"""Lists a server's tools with the official Python SDK 2.x, and says what goes wrong in the SDK's own words:
lister.py SERVER COMMAND…"""

import os
import sys

import anyio
from mcp import Client, StdioServerParameters


def words(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [text for one in error.exceptions for text in words(one)]
    return [f"{type(error).__name__}: {error}"]


async def main() -> None:
    command, *args = sys.argv[1:]
    server = StdioServerParameters(command=command, args=args, env=dict(os.environ))
    try:
        async with Client(server, mode="legacy", read_timeout_seconds=5) as client:
            print(*[tool.name for tool in (await client.list_tools()).tools], sep="\n")
    except BaseException as error:  # noqa: BLE001
        print(*words(error), sep="\n")


anyio.run(main)
