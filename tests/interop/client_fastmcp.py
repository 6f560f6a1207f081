"""fastmcp: client_fastmcp.py URL PROFILES SERVER legacy|auto"""

import contextlib
import sys
import warnings

import fastmcp
import httpx2
import mcp_types as types
from fastmcp.client.transports import StreamableHttpTransport
from mcp.shared.exceptions import MCPDeprecationWarning

import checks
import python_sdk

MODE = sys.argv[4]
warnings.simplefilter("ignore", MCPDeprecationWarning)


class Client(python_sdk.Client):
    async def call_tool(self, tool, arguments, on_progress):
        return await self.sdk.call_tool_mcp(tool, arguments, progress_handler=on_progress)

    async def ping(self):
        await self.sdk.ping()

    async def subscribe(self, uri):
        await self.sdk.session.subscribe_resource(uri)


@contextlib.asynccontextmanager
async def connect(url, wire, inbox):
    def http(**options):
        options.setdefault("timeout", httpx2.Timeout(30, read=300))
        return httpx2.AsyncClient(event_hooks=wire.hooks, **options)

    answers = python_sdk.callbacks(types, inbox)

    async def elicit(_message, _type, params, context):
        return await answers["elicitation_callback"](context, params)

    async def sample(_messages, params, context):
        return await answers["sampling_callback"](context, params)

    async def roots(context):
        return (await answers["list_roots_callback"](context)).roots

    async with fastmcp.Client(
        StreamableHttpTransport(url, httpx_client_factory=http),
        mode=MODE,
        timeout=checks.LIMIT,
        elicitation_handler=elicit,
        sampling_handler=sample,
        roots=roots,
        message_handler=answers["message_handler"],
    ) as client:
        yield Client(client, client.protocol_version)


checks.main(connect, httpx2, probes=MODE == "auto")
