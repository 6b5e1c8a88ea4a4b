"""Calls the tools of a server over plain HTTP by urllib; see ts/call.mjs.

    python call.py URL
"""

import json
import re
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

url = sys.argv[1]


def say(*line):
    print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


def post(path, body, accept="application/json"):
    headers = {"Content-Type": "application/json", "Accept": accept}
    try:
        response = urlopen(Request(url + path, json.dumps(body).encode(), headers))
    except HTTPError as e:
        response = e
    with response:
        return response.status, response.read().decode()


with urlopen(url) as listed:
    say("list", any(tool["name"] == "echo" for tool in json.load(listed)["tools"]))

status, text = post("", {"jsonrpc": "2.0", "id": "ü", "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "grüße"}}})
answer = json.loads(text)
say("echo", status, answer["id"], answer["result"]["content"][0]["text"])

status, text = post("/add", {"a": 2, "b": 40})
say("add", status, json.loads(text)["structuredContent"]["sum"])

status, text = post("/none", {})
say("none", status, json.loads(text)["error"]["code"])

status, text = post("/slow", {"ms": 20, "steps": 2}, "text/event-stream")
events = [(name, json.loads(data)) for name, data in re.findall("event: (.*)\ndata: (.*)\n\n", text)]
say("slow", status, *(name + ": " + data.get("result", data)["content"][0]["text"] for name, data in events))
