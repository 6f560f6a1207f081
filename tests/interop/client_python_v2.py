"""Python SDK 2.x: client_python_v2.py URL PROFILE legacy|auto

In mode `auto` the client asks `server/discover` first and falls back to `initialize` when that is refused.
"""

import contextlib
import sys
import warnings

import httpx2
import mcp_types as types
from mcp import Client as SdkClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning

import checks

MODE = sys.argv[3]
warnings.simplefilter("ignore", MCPDeprecationWarning)


class Client:
    def __init__(self, client):
        self.client = client
        self.version = client.protocol_version
        self.server = client.server_info.name

    async def tools(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, tool, arguments, progress=None):
        async def on_progress(_progress, _total, _message):
            progress()

        result = await self.client.call_tool(tool, arguments, progress_callback=progress and on_progress)
        return "\n".join(part.text for part in result.content if part.type == "text"), result.is_error

    async def cancel(self, request_id):
        """The SDK sends the notification when the task of the call is cancelled."""

    async def ping(self):
        await self.client.send_ping()

    async def level(self, name):
        await self.client.set_logging_level(name)

    async def resources(self):
        return [resource.uri for resource in (await self.client.list_resources()).resources]

    async def read(self, uri):
        return (await self.client.read_resource(uri)).contents

    async def subscribe(self, uri):
        await self.client.subscribe_resource(uri)

    async def prompt(self, name):
        return (await self.client.get_prompt(name)).messages


@contextlib.asynccontextmanager
async def connect(url, wire, inbox):
    async def elicit(_context, params):
        action, content = inbox.elicited(params.requested_schema)
        return types.ElicitResult(action=action, content=content)

    async def sample(_context, _params):
        content = types.TextContent(type="text", text=inbox.sampled())
        return types.CreateMessageResult(role="assistant", content=content, model="interop")

    async def roots(_context):
        return types.ListRootsResult(roots=[types.Root(uri=inbox.listed_roots(), name="interop")])

    async def incoming(message):
        if isinstance(message, Exception):
            inbox.errors.append(checks.describe(message))
        else:
            inbox.notes.append(message.method)

    async with (
        httpx2.AsyncClient(timeout=httpx2.Timeout(30, read=300), event_hooks=wire.hooks) as http,
        SdkClient(
            streamable_http_client(url, http_client=http),
            mode=MODE,
            read_timeout_seconds=checks.LIMIT,
            elicitation_callback=elicit,
            sampling_callback=sample,
            list_roots_callback=roots,
            message_handler=incoming,
        ) as client,
    ):
        yield Client(client)


checks.main(connect, httpx2, probes=MODE == "auto")
