"""The Inspector's command line: client_inspector.py URL PROFILES SERVER legacy|auto COMMAND…

Each check is a run of its own, with a session of its own. What it prints is all that there is to check.
"""

import json
import sys

import anyio

import checks


class Client:
    """As far as `checks.call` needs it."""

    def __init__(self, url, era, command):
        self.command = [*command, "--cli", "--transport", "http", "--server-url", url, "--protocol-era", era]

    async def run(self, method, *arguments):
        done = await anyio.run_process([*self.command, "--method", method, *arguments], check=False)
        if done.returncode not in (0, 5):  # 5: the tool reported an error
            raise AssertionError(f"{method} ended with {done.returncode}: {done.stderr.decode()[-300:]}")
        return json.loads(done.stdout)

    async def call(self, tool, arguments, _progress=None):
        result = await self.run("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
        return text, result.get("isError", False)


async def run():
    url, profiles, name, era, *command = sys.argv[1:]
    profile = checks.load_profile(profiles, name)
    report, client = checks.Report(), Client(url, era, command)
    with report.check("tools/list"):
        listed = [tool["name"] for tool in (await client.run("tools/list"))["tools"]]
        # Its command line can't be asked anything, and some servers hide what needs that.
        asking = {profile[name]["tool"] for name in ("elicitation", "sampling") if name in profile}
        missing = set(profile["tools"]) - asking - set(listed)
        checks.expect(not missing, "missing", sorted(missing))
    with report.check("tools/call"):
        await checks.call(client, profile["call"])
    if profile.get("resources"):
        with report.check("resources/list"):
            checks.expect((await client.run("resources/list"))["resources"], "no resource is listed")
    if step := profile.get("polled"):
        # It asks for no progress, so nothing is said on any connection until the result.
        with report.check("quiet call resumed"):
            await checks.call(client, step)
    return 1 if report.failed else 0


sys.exit(anyio.run(run))
