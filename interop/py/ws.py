"""A WebSocket of websockets between standard input and output, driven as ts/ws.mjs is.

    python ws.py URL [SUBPROTOCOL]
"""

import asyncio
import sys

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode


def tell(line):
    print(f"!{line}", file=sys.stderr, flush=True)


class Connection(ClientConnection):
    def process_event(self, event):
        if isinstance(event, Frame) and event.opcode is Opcode.PING:
            tell("pinged")
        super().process_event(event)


async def pong(waiter):
    await waiter
    tell("pong")


async def speak(socket):
    lines = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode().removesuffix("\n"):
        match line:
            case "!ping":
                await pong(await socket.ping())
            case "!binary":
                await socket.send(b"\1\2\3")
            case _:
                await socket.send(line)
    await socket.close()


async def main(url, *subprotocols):
    async with connect(
        url, subprotocols=subprotocols or None, create_connection=Connection, max_size=None, proxy=None
    ) as socket:
        tell(f"open {socket.subprotocol or ''}")
        speaking = asyncio.create_task(speak(socket))
        try:
            while True:
                print(await socket.recv(), flush=True)
        except ConnectionClosed as e:
            code, reason = (e.rcvd.code, e.rcvd.reason) if e.rcvd else (1006, "")
            tell(f"close {code} {reason}")
        speaking.cancel()


asyncio.run(main(*sys.argv[1:]))
