"""drain.py URL PROFILES SERVER PID: opens a session, starts a call, sends SIGTERM to the program and awaits the answer.

Prints `ok CHECK` or `fail CHECK: reason` lines. Whether the program and its children are gone is checked by `run`.
"""

import http.client
import json
import os
import pathlib
import signal
import sys
import time
import urllib.parse

url, profiles, name, pid = sys.argv[1:]
target = urllib.parse.urlsplit(url)
profile = json.loads(pathlib.Path(profiles).read_text())[name]
headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
opening = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "interop", "version": "1"},
}


def send(method, params=None, request_id=None):
    message = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    if request_id is not None:
        message["id"] = request_id
    connection = http.client.HTTPConnection(target.hostname, target.port, timeout=20)
    connection.request("POST", target.path, json.dumps(message), headers)
    return connection


def check(title, good, reason):
    print(f"ok {title}" if good else f"fail {title}: {reason}", flush=True)
    return good


answer = send("initialize", opening, 1).getresponse()
answer.read()
headers["mcp-session-id"] = answer.getheader("mcp-session-id")
headers["mcp-protocol-version"] = opening["protocolVersion"]
good = check("session open", answer.status == 200, answer.status)
send("notifications/initialized").getresponse().read()

step = profile.get("drain")
if step:
    call = send("tools/call", {"name": step["tool"], "arguments": step["arguments"]}, 2)
    time.sleep(0.5)

os.kill(int(pid), signal.SIGTERM)

if step:
    time.sleep(0.3)
    del headers["mcp-session-id"], headers["mcp-protocol-version"]
    try:
        late = send("initialize", opening, 1).getresponse().status
    except ConnectionError:
        late = "no connection"
    good &= check("new sessions refused", late in (503, "no connection"), late)
    try:
        body = call.getresponse().read().decode()
    except (OSError, http.client.HTTPException) as error:
        body = repr(error)
    good &= check("running call finished", '"result"' in body, body[:300])
sys.exit(not good)
