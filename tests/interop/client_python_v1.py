"""Python SDK 1.x: client_python_v1.py URL PROFILE"""

import contextlib
from datetime import timedelta

import httpx
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

import checks


class Client:
    def __init__(self, session, opened):
        self.session = session
        self.version = opened.protocolVersion
        self.server = opened.serverInfo.name

    async def tools(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool, arguments, progress=None):
        async def on_progress(_progress, _total, _message):
            progress()

        result = await self.session.call_tool(tool, arguments, progress_callback=progress and on_progress)
        return "\n".join(part.text for part in result.content if part.type == "text"), result.isError

    async def cancel(self, request_id):
        params = types.CancelledNotificationParams(requestId=request_id, reason="changed its mind")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))

    async def ping(self):
        await self.session.send_ping()

    async def level(self, name):
        await self.session.set_logging_level(name)

    async def resources(self):
        return [resource.uri for resource in (await self.session.list_resources()).resources]

    async def read(self, uri):
        return (await self.session.read_resource(uri)).contents

    async def subscribe(self, uri):
        await self.session.subscribe_resource(uri)

    async def prompt(self, name):
        return (await self.session.get_prompt(name)).messages


@contextlib.asynccontextmanager
async def connect(url, wire, inbox):
    async def elicit(_context, params):
        action, content = inbox.elicited(params.requestedSchema)
        return types.ElicitResult(action=action, content=content)

    async def sample(_context, _params):
        content = types.TextContent(type="text", text=inbox.sampled())
        return types.CreateMessageResult(role="assistant", content=content, model="interop")

    async def roots(_context):
        return types.ListRootsResult(roots=[types.Root(uri=inbox.listed_roots(), name="interop")])

    async def incoming(message):
        if isinstance(message, Exception):
            inbox.errors.append(checks.describe(message))
        elif isinstance(message, types.ServerNotification):
            inbox.notes.append(message.root.method)

    async with (
        httpx.AsyncClient(timeout=httpx.Timeout(30, read=300), event_hooks=wire.hooks) as http,
        streamable_http_client(url, http_client=http) as (read, write, _session_id),
        ClientSession(
            read,
            write,
            read_timeout_seconds=timedelta(seconds=checks.LIMIT),
            elicitation_callback=elicit,
            sampling_callback=sample,
            list_roots_callback=roots,
            message_handler=incoming,
        ) as session,
    ):
        yield Client(session, await session.initialize())


checks.main(connect, httpx)
