"""A server on a free port, with the WebSockets of websockets; see ts/wsserver.mjs.

    python wsserver.py COMMAND [ARGUMENT...]
"""

import asyncio
import contextlib
import json
import random
import signal
import sys

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed


async def noise(socket):
    await socket.ping()
    await socket.pong(b"noise")
    await socket.send('{"type":"ping"}')
    await socket.send('{"jsonrpc":"2.0","method":"notifications/noise","params":{}}')
    await socket.send('{"jsonrpc":"2.0","id":"noise","result":{}}')


async def relay(socket, child, loud):
    with contextlib.suppress(ConnectionClosed):
        while line := await child.stdout.readline():
            if loud:
                await noise(socket)
            await socket.send(line.decode().removesuffix("\n"))


def call(socket, waiting, name, arguments=None):
    match name:
        case "echo":
            text = arguments["text"]
        case "extensions":
            text = ", ".join(e.name for e in socket.protocol.extensions)
        case "waiting":
            text = str(waiting)
        case _:
            return {"error": {"code": -32602, "message": f"there is no tool {name}"}}
    return {"result": {"content": [{"type": "text", "text": text}]}}


async def answer(socket, id, outcome):
    await asyncio.sleep(random.random() / 100)
    with contextlib.suppress(ConnectionClosed):
        await noise(socket)
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": id, **outcome}))


async def messages(socket):
    with contextlib.suppress(ConnectionClosed):
        async for text in socket:
            if '"drop"' in text:
                socket.transport.abort()
            elif '"leave"' in text:
                await socket.close(1011, "as asked")
            else:
                yield text


async def talk(socket):
    path = socket.request.path
    if path == "/tools":
        waiting = 0
        async with asyncio.TaskGroup() as answers:
            async for text in messages(socket):
                frame = json.loads(text)
                id = frame.pop("id")
                if frame["name"] == "wait":
                    waiting += 1
                else:
                    answers.create_task(answer(socket, id, call(socket, waiting, **frame)))
        return
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*sys.argv[1:], stdin=pipe, stdout=pipe, limit=1 << 24)
    relaying = asyncio.create_task(relay(socket, child, path == "/noise"))
    async for text in messages(socket):
        child.stdin.write(text.encode() + b"\n")
    child.kill()  # it would wait for the calls under way
    await relaying
    await child.wait()


def choose(_, offered):
    return "mcp" if "mcp" in offered else None


async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    async with serve(talk, "127.0.0.1", 0, select_subprotocol=choose, max_size=None) as server:
        print("ready: ws://127.0.0.1:%d" % server.sockets[0].getsockname()[1], file=sys.stderr, flush=True)
        await stop.wait()


asyncio.run(main())
