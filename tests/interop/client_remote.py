"""mcp-remote as the command of a client that speaks stdio only: client_remote.py URL PROFILES SERVER COMMAND…

The client is Python SDK 1.x. What mcp-remote does on the wire is its own affair: only what the client sees is checked.
"""

import contextlib
import sys
from datetime import timedelta

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

import checks
import python_sdk


@contextlib.asynccontextmanager
async def connect(url, inbox):
    command, *arguments = sys.argv[4:]
    # Plain HTTP is refused for other hosts than this one only.
    server = StdioServerParameters(command=command, args=[*arguments, url, "--transport", "http-only"])
    async with (
        stdio_client(server) as (read, write),
        ClientSession(
            read, write, read_timeout_seconds=timedelta(seconds=checks.LIMIT), **python_sdk.callbacks(types, inbox)
        ) as session,
    ):
        yield python_sdk.Client(session, (await session.initialize()).protocolVersion)


async def run():
    url, profiles, name = sys.argv[1:4]
    profile = checks.load_profile(profiles, name)
    report, inbox = checks.Report(), checks.Inbox()
    try:
        async with connect(url, inbox) as client:
            with report.check("initialize"):
                checks.expect(client.version == checks.VERSION, "negotiated", client.version)
            await checks.run_features(report, profile, client, inbox)
            if step := profile.get("polled"):
                with report.check("call resumed"):
                    await checks.check_polled(client, step)
            with report.check("transport"):
                checks.expect(not inbox.errors, "the client reported", inbox.errors)
    except Exception as error:
        report.fail("session", checks.describe(error))
    return 1 if report.failed else 0


sys.exit(anyio.run(run))
