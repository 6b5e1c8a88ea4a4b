"""A server of tools over plain HTTP on a free port, by http.server; see ts/callserver.mjs.

It speaks HTTP/1.0: the end of the connection ends an answer.
"""

import json
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def content(text):
    return {"content": [{"type": "text", "text": text}]}


def event(name, data):
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, kind, text):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        for byte in text.encode():
            self.wfile.write(bytes([byte]))

    def json(self, status, value):
        self.answer(status, "application/json", json.dumps(value))

    def do_GET(self):
        self.json(200, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        match request["params"]["name"]:
            case "echo":
                self.json(200, {**reply, "result": content(request["params"]["arguments"]["text"])})
            case "fail":
                self.json(422, {**reply, "error": {"code": 1234, "message": "as asked", "data": {"reason": "because"}}})
            case "crash":
                self.send_error(500)
            case name:
                text = ": begin\n\n" + event("result", content("öne")) + event("other", {}) + event("result", content("two"))
                if name == "parts":
                    text += event("complete", {**reply, "result": {"content": []}})
                self.answer(200, "text/event-stream", text)

    def log_message(self, *_):
        pass


def stop(*_):
    sys.exit(0)


signal.signal(signal.SIGINT, stop)
with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    print(f"ready: http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()
