"""Python SDK 2.x: client_python_v2.py URL PROFILES SERVER legacy|auto

In mode `auto` the client asks `server/discover` first and falls back to `initialize` when that is refused.
"""

import contextlib
import sys
import warnings

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning

import checks
import python_sdk

MODE = sys.argv[4]
warnings.simplefilter("ignore", MCPDeprecationWarning)


@contextlib.asynccontextmanager
async def connect(url, wire, inbox):
    async with (
        httpx2.AsyncClient(timeout=httpx2.Timeout(30, read=300), event_hooks=wire.hooks) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=MODE,
            read_timeout_seconds=checks.LIMIT,
            **python_sdk.callbacks(types, inbox),
        ) as client,
    ):
        yield python_sdk.Client(client, client.protocol_version)


checks.main(connect, httpx2, probes=MODE == "auto")
