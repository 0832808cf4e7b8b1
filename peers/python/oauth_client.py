"""An MCP client on the official Python SDK 2.x that signs in: oauth_client.py URL [--any-resource] [--legacy]

It says in one line of JSON what the server said to it: before and after its token has become invalid."""

import json
import logging
import sys
from urllib.parse import parse_qs, urlparse

import anyio
import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

REDIRECT = "http://127.0.0.1:1/callback"


class Storage:
    tokens: OAuthToken | None = None
    client_info: OAuthClientInformationFull | None = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client_info

    async def set_client_info(self, client_info):
        self.client_info = client_info


class Browser:
    """Goes where a person's browser would."""

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(url)
        query = parse_qs(urlparse(response.headers["location"]).query)
        self.result = AuthorizationCodeResult(
            code=query["code"][0], state=query["state"][0], iss=query.get("iss", [None])[0]
        )

    async def result_of(self) -> AuthorizationCodeResult:
        return self.result


async def accept(_server_url: str, _resource: str | None) -> None:
    pass


def causes(error: BaseException):
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from causes(inner)
    else:
        yield error


async def main() -> None:
    url, *flags = sys.argv[1:]
    browser = Browser()
    metadata = OAuthClientMetadata(
        client_name="python2", redirect_uris=[REDIRECT], grant_types=["authorization_code", "refresh_token"]
    )
    checks = {"validate_resource_url": accept} if "--any-resource" in flags else {}
    auth = OAuthClientProvider(url, metadata, Storage(), browser.open, browser.result_of, **checks)
    said = {}
    try:
        async with httpx2.AsyncClient(auth=auth, timeout=30) as http:
            mode = "legacy" if "--legacy" in flags else "auto"
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                said["revision"] = client.protocol_version
                said["results"] = []
                for tool in ["who", "expire", "who"]:
                    result = await client.call_tool(tool, {})
                    said["results"].append(result.content[0].text)
    except Exception as error:
        said["error"] = "; ".join(str(cause) for cause in causes(error))
    print(json.dumps(said), flush=True)


logging.disable()
anyio.run(main)
