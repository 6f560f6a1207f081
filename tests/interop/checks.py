"""The checks that the Python clients share; each client script brings the driver of its SDK.

A driver is an asynchronous context manager `connect(url, wire, inbox)`: it opens a session through the SDK, yields a
client, and ends the session as the SDK does. The client has

    version                              what was negotiated
    tools()                              names of the tools
    call(tool, arguments, progress)      (text, is_error); raises what the SDK raises; `progress` gets each value
    cancel(request_id)                   tells the server that a call was abandoned, where the SDK does not do so itself
    ping(), level(name), resources(), read(uri), subscribe(uri), prompt(name)
"""

import contextlib
import json
import pathlib
import re
import sys

import anyio

LIMIT = 40  # seconds for one check
ANSWER = "Ada Lovelace"  # what the client says when the server asks it something
ROOT = "file:///srv/interop"
VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
SESSION = "mcp-session-id"


class Report:
    """Prints one line for each check."""

    def __init__(self):
        self.failed = False

    def fail(self, name, reason):
        self.failed = True
        print(f"fail {name}: {reason}", flush=True)

    @contextlib.contextmanager
    def check(self, name):
        try:
            with anyio.fail_after(LIMIT):
                yield
        except Exception as error:
            self.fail(name, describe(error))
        else:
            print(f"ok {name}", flush=True)


def describe(error):
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(inner) for inner in error.exceptions)
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def expect(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(part) for part in what))


async def until(condition, what, seconds=10):
    with anyio.move_on_after(seconds):
        while not condition():
            await anyio.sleep(0.02)
    expect(condition(), f"not within {seconds} s:", what)


class Exchange:
    """One HTTP exchange as it was on the wire."""

    def __init__(self, request):
        self.request = request
        self.method = request.method
        self.message = json.loads(request.content) if request.method == "POST" else {}
        self.status = None
        self.headers = {}
        self.body = bytearray()
        self.complete = False  # the server ended the body

    @property
    def streams(self):
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def event_ids(self):
        """Ids of the events that carry a message; others only tell where the client is."""
        return re.findall(rb"^id: *(\S+)\ndata: *\S", self.body, re.MULTILINE)


class Wire:
    """Records what an HTTP client of the httpx family sends and receives."""

    def __init__(self, httpx):
        self.exchanges = []

        class Tap(httpx.AsyncByteStream):
            def __init__(self, exchange, inner):
                self.exchange, self.inner = exchange, inner

            async def __aiter__(self):
                async for chunk in self.inner:
                    self.exchange.body += chunk
                    yield chunk
                self.exchange.complete = True

            async def aclose(self):
                await self.inner.aclose()

        async def on_request(request):
            self.exchanges.append(Exchange(request))

        async def on_response(response):
            exchange = next(e for e in self.exchanges if e.request is response.request)
            exchange.status, exchange.headers = response.status_code, response.headers
            response.stream = Tap(exchange, response.stream)

        self.hooks = {"request": [on_request], "response": [on_response]}

    def find(self, method, name=None):
        """Exchanges of an HTTP method (and a JSON-RPC method), newest last."""
        return [e for e in self.exchanges if e.method == method and name in (None, e.message.get("method"))]

    def carried(self, method, text):
        return any(e.streams and text.encode() in e.body for e in self.find(method))

    def dump(self):
        """For the log of a run that failed."""
        for e in self.exchanges:
            print(e.method, json.dumps(e.message), dict(e.request.headers), file=sys.stderr)
            print("   ", e.status, dict(e.headers), bytes(e.body[:2000]), "end" if e.complete else "open", file=sys.stderr)

    @property
    def session(self):
        return next((e.headers[SESSION] for e in self.exchanges if SESSION in e.headers), None)


class Inbox:
    """What the server sent without being asked, and what the client answers when it is asked."""

    def __init__(self):
        self.notes = []
        self.asked = []
        self.errors = []
        self.accept = True

    def count(self, method):
        return sum(1 for name in self.notes if name == method)

    def elicited(self, schema):
        """Action and content of the answer to an elicitation: the required fields, or else the first one that is text."""
        self.asked.append("elicitation/create")
        if not self.accept:
            return "decline", None
        fields = schema.get("required") or [
            name for name, field in schema.get("properties", {}).items() if field.get("type") == "string"
        ][:1]
        return "accept", {name: ANSWER for name in fields}

    def sampled(self):
        self.asked.append("sampling/createMessage")
        return ANSWER

    def listed_roots(self):
        self.asked.append("roots/list")
        return ROOT


def matches(step, text):
    if "equals" in step:
        expect(text == step["equals"], "got", repr(text[:200]), "instead of", repr(step["equals"]))
    if "contains" in step:
        expect(step["contains"] in text, repr(step["contains"]), "is not in", repr(text[:200]))
    if "length" in step:
        expect(len(text) == step["length"], "got", len(text), "characters instead of", step["length"])


async def call(client, step, progress=None):
    text, is_error = await client.call(step["tool"], step["arguments"], progress)
    expect(not is_error, "the tool reported an error:", text[:200])
    matches(step, text)
    return text


async def statuses(httpx, url, session):
    """What the three methods answer for a session id."""
    headers = {
        "accept": "application/json, text/event-stream",
        SESSION: session,
        "mcp-protocol-version": VERSION,
    }
    async with httpx.AsyncClient(timeout=LIMIT) as http:
        post = await http.post(url, headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        get = await http.get(url, headers=headers)
        delete = await http.delete(url, headers=headers)
    return [post.status_code, get.status_code, delete.status_code]


async def check_cancel(client, wire, step):
    seen = []
    async with anyio.create_task_group() as tasks:

        async def abandoned():
            await client.call(step["tool"], step["arguments"], seen.append)

        tasks.start_soon(abandoned)
        await until(lambda: seen, "the first progress of the call")
        exchange = wire.find("POST", "tools/call")[-1]
        await client.cancel(exchange.message["id"])
        tasks.cancel_scope.cancel()
    await until(lambda: wire.find("POST", "notifications/cancelled"), "notifications/cancelled was sent")
    note = wire.find("POST", "notifications/cancelled")[-1]
    await until(lambda: note.status, "an answer to notifications/cancelled")
    expect(note.status == 202, "notifications/cancelled was answered with", note.status)
    await until(lambda: exchange.complete, "the end of the cancelled call's stream", 5)
    expect(b'"result"' not in exchange.body, "the cancelled call was answered")
    before = len(seen)
    await anyio.sleep(1)
    expect(len(seen) == before, "progress of the cancelled call went on")
    await client.ping()


async def run_features(report, profile, client, inbox, wire=None, modern=False):
    """What works in either era, and through anything that stands between client and server."""
    with report.check("tools"):
        missing = set(profile["tools"]) - set(await client.tools())
        expect(not missing, "missing", sorted(missing))

    with report.check("call"):
        await call(client, profile["call"])

    with report.check("error"):
        try:
            text, is_error = await client.call("no-such-tool", {})
        except Exception as error:
            expect("no-such-tool" in str(error), "the error does not name the tool:", error)
        else:
            expect(is_error, "an unknown tool answered", repr(text[:200]))

    if step := profile.get("large"):
        with report.check("large result"):
            await call(client, step)

    if step := profile.get("parallel"):
        with report.check("parallel calls"):
            texts = {}

            async def one(n):
                texts[n], _ = await client.call(step["tool"], {step["argument"]: f"number {n}"})

            async with anyio.create_task_group() as tasks:
                for n in range(8):
                    tasks.start_soon(one, n)
            wrong = {n: text for n, text in texts.items() if text != f"{step['prefix']}number {n}"}
            expect(not wrong, "answers went astray:", wrong)

    if not modern:
        with report.check("ping"):
            await client.ping()

    if (level := profile.get("level")) and not modern:
        with report.check("logging level"):
            await client.level(level)

    if step := profile.get("progress"):
        with report.check("progress"):
            seen = []
            await call(client, step, seen.append)
            expect(len(seen) >= step["at_least"], len(seen), "progress notifications before the result")
            expect(not wire or wire.carried("POST", "notifications/progress"), "not on the stream of the call")

    if (step := profile.get("log")) and not modern:
        with report.check("log messages"):
            before = inbox.count("notifications/message")
            await call(client, step)
            enough = before + step["at_least"]
            await until(lambda: inbox.count("notifications/message") >= enough, f"{step['at_least']} log messages")

    if (step := profile.get("standalone")) and not modern:
        with report.check("GET notifications"):
            if uri := step.get("subscribe"):
                await client.subscribe(uri)
            before = inbox.count(step["method"])
            await call(client, step)
            enough = before + step["at_least"]
            await until(lambda: inbox.count(step["method"]) >= enough, f"{step['at_least']} of {step['method']}")
            expect(not wire or wire.carried("GET", step["method"]), "not on the GET stream")

    if profile.get("resources"):
        with report.check("resources"):
            uris = await client.resources()
            expect(uris, "no resource is listed")
            expect(await client.read(uris[0]), uris[0], "is empty")

    if name := profile.get("prompt"):
        with report.check("prompt"):
            expect(await client.prompt(name), "the prompt has no message")

    if step := profile.get("roots"):
        with report.check("roots"):
            await until(lambda: "roots/list" in inbox.asked, "the server asked for the roots")
            await call(client, {**step, "contains": ROOT})

    if step := profile.get("elicitation"):
        with report.check("elicitation"):
            await call(client, {**step, "contains": ANSWER})
            inbox.accept = False
            text = await call(client, step)
            expect(ANSWER not in text, "a declined elicitation was answered")
            expect(inbox.asked.count("elicitation/create") == 2, "asked", inbox.asked)

    if step := profile.get("sampling"):
        with report.check("sampling"):
            await call(client, {**step, "contains": ANSWER})


async def run_session(report, profile, client, wire, inbox, connect, url, httpx):
    """The checks that need an open session."""
    with report.check("initialize"):
        opened = wire.find("POST", "initialize")[-1]
        expect(client.version == VERSION, "negotiated", client.version)
        expect(opened.status == 200 and opened.headers.get(SESSION), "no session id came with", opened.status)
        told = lambda: [e.status for e in wire.find("POST", "notifications/initialized")]
        await until(lambda: told() == [202], "202 for notifications/initialized")

    with report.check("GET stream"):
        await until(lambda: any(e.streams and e.status == 200 for e in wire.find("GET")), "the GET stream is open")

    await run_features(report, profile, client, inbox, wire)

    if step := profile.get("cancel"):
        with report.check("cancel"):
            await check_cancel(client, wire, step)

    with report.check("two sessions"):
        other_wire = Wire(httpx)
        async with connect(url, other_wire, Inbox()) as other:
            expect(wire.session != other_wire.session, "two sessions have one id")
            for step in profile["sessions"]:
                await call(other if step["session"] == 2 else client, step)
        await client.ping()

    if step := profile.get("crash"):
        with report.check("crash"):
            crash_wire = Wire(httpx)
            try:
                async with connect(url, crash_wire, Inbox()) as victim:
                    with contextlib.suppress(Exception):
                        await victim.call(step["tool"], step["arguments"])
            except Exception as error:
                # The answer is 500 with a JSON-RPC error, which mcp 1.x raises from its transport, not from the call.
                expect("500" in describe(error), describe(error))
            answers = [e.status for e in crash_wire.exchanges if e.message.get("method") == "tools/call"]
            expect(answers == [500], "the call that ends the session was answered with", answers)
            answers = await statuses(httpx, url, crash_wire.session)
            expect(answers == [404] * 3, "POST, GET and DELETE after the crash were answered with", answers)
            await client.ping()

    with report.check("transport"):
        expect(not inbox.errors, "the client reported", inbox.errors)
        odd = [(e.method, e.message.get("method"), e.status) for e in wire.exchanges if e.status not in (200, 202, 204)]
        if odd and odd[0][1] == "server/discover":
            del odd[0]
        expect(not odd, "unexpected answers:", odd)


def resumed(wire):
    """The GETs that took the stream of a request up again."""
    return [e for e in wire.find("GET") if "last-event-id" in e.request.headers]


async def check_polled(client, step):
    """A call that takes longer than connections live: its progress and its result arrive, each once and in order."""
    values = []
    await call(client, step, values.append)
    *between, last = [round(value / step["step"], 6) for value in values]
    expect(between == list(range(1, len(values))), "progress was lost, repeated or out of order:", values)
    expect(last == round(step["last"] / step["step"], 6), "the last progress is", values[-1])
    expect(len(values) >= step["at_least"], len(values), "progress notifications before the result")


async def run_polled(report, profile, client, wire):
    """The checks of a session whose server ends the connections of calls (`--poll-after`)."""
    with report.check("call resumed"):
        await check_polled(client, profile["polled"])
        expect(len(resumed(wire)) >= 2, "the stream was resumed", len(resumed(wire)), "times")
        posted = wire.find("POST", "tools/call")
        expect(len(posted) == 1, "the call was sent", len(posted), "times")
        ids = [event for exchange in [*posted, *resumed(wire)] for event in exchange.event_ids]
        expect(len(ids) == len(set(ids)), "an event came twice:", ids)

    with report.check("quiet call resumed"):
        # Nothing is said until the result, so connections end without an event of their own.
        before = len(resumed(wire))
        await call(client, profile["polled"])
        expect(len(resumed(wire)) - before >= 2, "the stream was resumed", len(resumed(wire)) - before, "times")

    with report.check("call"):
        await call(client, profile["call"])


async def run_modern(report, profile, client, wire, inbox):
    """The checks of a server without sessions."""
    with report.check("discover"):
        first = wire.exchanges[0]
        expect(first.message.get("method") == "server/discover", "the first request was", first.message)
        expect(first.status == 200, "it was answered with", first.status, bytes(first.body))
        expect(client.version == MODERN_VERSION, "spoken:", client.version)

    await run_features(report, profile, client, inbox, wire, modern=True)

    if step := profile.get("polled"):
        # Nothing can be resumed, so the server leaves the connection alone.
        with report.check("call on one connection"):
            await check_polled(client, step)
            expect(not wire.find("GET"), "something was resumed")

    if profile.get("sessionless"):
        with report.check("nothing is kept"):
            for _ in range(2):
                await call(client, {"tool": "count", "arguments": {}, "equals": "1"})

    with report.check("transport"):
        expect(not inbox.errors, "the client reported", inbox.errors)
        odd = [(e.method, e.message.get("method"), e.status) for e in wire.exchanges if e.status not in (200, 202)]
        expect(not odd, "unexpected answers:", odd)
        expect(not any(e.headers.get(SESSION) for e in wire.exchanges), "a session id came with an answer")


async def run(connect, httpx, url, profile, probes):
    """All checks of one client against one server; `probes` says whether the client tries the modern era first."""
    report, wire, inbox = Report(), Wire(httpx), Inbox()
    opened, modern = False, probes and profile.get("modern")
    try:
        async with connect(url, wire, inbox) as client:
            opened = True
            if modern:
                await run_modern(report, profile, client, wire, inbox)
            elif profile.get("polled"):
                await run_polled(report, profile, client, wire)
            else:
                if probes:
                    with report.check("fallback"):
                        first = wire.exchanges[0]
                        expect(first.message.get("method") == "server/discover", "the first request was", first.message)
                        expect(first.status == 400, "the probe was answered with", first.status, bytes(first.body))
                        expect(json.loads(first.body)["error"]["code"] == -32600, "the probe:", bytes(first.body))
                await run_session(report, profile, client, wire, inbox, connect, url, httpx)
    except Exception as error:
        report.fail("session" if opened else "initialize", describe(error))
    if opened and not modern:
        with report.check("DELETE"):
            ended = wire.find("DELETE")
            expect(ended and ended[-1].status in (200, 204), "DELETE:", [e.status for e in ended])
            answers = await statuses(httpx, url, wire.session)
            expect(answers == [404] * 3, "afterwards POST, GET and DELETE were answered with", answers)
    if report.failed:
        wire.dump()
    return 1 if report.failed else 0


def load_profile(file, name):
    return json.loads(pathlib.Path(file).read_text())[name]


def main(connect, httpx, probes=False):
    url, profiles, name = sys.argv[1:4]
    sys.exit(anyio.run(run, connect, httpx, url, load_profile(profiles, name), probes))
