"""A client that holds one stream of a session of its own and reads it for ever. Python's standard library alone.

    client.py ADDRESS:PORT get|post

`get` is the standalone stream, `post` that of a call that never ends. Says `quiet` once it has read comments, and nothing
else, for longer than the session could have lived without it.
"""

import http.client
import json
import sys

address, kind = sys.argv[1:]
port = address.rpartition(":")[2]
headers = {
    "Host": f"sessile.test:{port}",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}


def send(method, message=None):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, "/mcp", message and json.dumps({"jsonrpc": "2.0", **message}), headers)
    return connection, connection.getresponse()


def post(message, status):
    connection, answer = send("POST", message)
    assert answer.status == status, answer.status
    answer.read()
    # Only the stream is left open.
    connection.close()
    return answer


version = "2025-11-25"
parameters = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "netns", "version": "1"}}
opened = post({"id": 0, "method": "initialize", "params": parameters}, 200)
headers["Mcp-Session-Id"] = opened.headers["Mcp-Session-Id"]
headers["MCP-Protocol-Version"] = version
post({"method": "notifications/initialized"}, 202)

if kind == "get":
    headers["Accept"] = "text/event-stream"
    connection, stream = send("GET")
else:
    call = {"name": "slow", "arguments": {"steps": 1, "ms": 100_000_000}}
    connection, stream = send("POST", {"id": 1, "method": "tools/call", "params": call})
assert stream.status == 200, stream.status
comments = 0
for line in stream:
    # Comments, and the event that primes a stream which can be resumed.
    assert line == b"\n" or line.startswith((b":", b"id:", b"data:", b"retry:")), line
    comments += line.startswith(b":")
    if comments == 6:
        print("quiet", flush=True)
print("the stream ended")
