"""What the Python clients have in common, whatever the SDK's generation. `checks.py` says what a client and an inbox are."""

import checks


class Client:
    """The client of `checks.py` on top of an SDK's object: 1.x calls it a session, 2.x and fastmcp a client."""

    def __init__(self, sdk, version):
        self.sdk = sdk
        self.version = version

    async def tools(self):
        listed = await self.sdk.list_tools()
        return [tool.name for tool in getattr(listed, "tools", listed)]

    async def call(self, tool, arguments, progress=None):
        async def on_progress(value, _total, _message):
            progress(value)

        result = await self.call_tool(tool, arguments, progress and on_progress)
        text = "\n".join(part.text for part in result.content if part.type == "text")
        return text, result.model_dump(by_alias=True)["isError"]

    async def call_tool(self, tool, arguments, on_progress):
        return await self.sdk.call_tool(tool, arguments, progress_callback=on_progress)

    async def cancel(self, request_id):
        """From 2.x on the SDK sends the notification when the task of the call is cancelled."""

    async def ping(self):
        await self.sdk.send_ping()

    async def level(self, name):
        await self.sdk.set_logging_level(name)

    async def resources(self):
        listed = await self.sdk.list_resources()
        return [resource.uri for resource in getattr(listed, "resources", listed)]

    async def read(self, uri):
        contents = await self.sdk.read_resource(uri)
        return getattr(contents, "contents", contents)

    async def subscribe(self, uri):
        await self.sdk.subscribe_resource(uri)

    async def prompt(self, name):
        return (await self.sdk.get_prompt(name)).messages


def callbacks(types, inbox):
    """What an SDK session is given, so that the server's requests are answered and its notifications kept."""

    async def elicit(_context, params):
        action, content = inbox.elicited(params.model_dump(by_alias=True)["requestedSchema"])
        return types.ElicitResult(action=action, content=content)

    async def sample(_context, _params):
        content = types.TextContent(type="text", text=inbox.sampled())
        return types.CreateMessageResult(role="assistant", content=content, model="interop")

    async def roots(_context):
        return types.ListRootsResult(roots=[types.Root(uri=inbox.listed_roots(), name="interop")])

    async def incoming(message):
        if isinstance(message, Exception):
            inbox.errors.append(checks.describe(message))
        elif method := getattr(getattr(message, "root", message), "method", None):
            # 1.x hands over the server's requests too.
            if method.startswith("notifications/"):
                inbox.notes.append(method)

    return {
        "elicitation_callback": elicit,
        "sampling_callback": sample,
        "list_roots_callback": roots,
        "message_handler": incoming,
    }
