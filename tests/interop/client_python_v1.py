"""Python SDK 1.x: client_python_v1.py URL PROFILES SERVER"""

import contextlib
from datetime import timedelta

import httpx
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

import checks
import python_sdk


class Client(python_sdk.Client):
    async def cancel(self, request_id):
        params = types.CancelledNotificationParams(requestId=request_id, reason="changed its mind")
        await self.sdk.send_notification(types.ClientNotification(types.CancelledNotification(params=params)))


@contextlib.asynccontextmanager
async def connect(url, wire, inbox):
    async with (
        httpx.AsyncClient(timeout=httpx.Timeout(30, read=300), event_hooks=wire.hooks) as http,
        streamable_http_client(url, http_client=http) as (read, write, _session_id),
        ClientSession(
            read, write, read_timeout_seconds=timedelta(seconds=checks.LIMIT), **python_sdk.callbacks(types, inbox)
        ) as session,
    ):
        yield Client(session, (await session.initialize()).protocolVersion)


checks.main(connect, httpx)
