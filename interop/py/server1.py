"""A server of version 1 of the Python SDK, which is of the legacy era and knows what
it did in variables of its module.

    python server1.py FOLDER stdio|sse|streamable-http

FOLDER has the package mcp of the version to take. If JOURNAL is set, each process
adds a line to that file.
"""

import contextlib
import os
import sys

sys.path.insert(0, sys.argv[1])

import anyio
from mcp.server.fastmcp import Context, FastMCP
from pydantic import Field, create_model

server = FastMCP("python-sdk-1", host="127.0.0.1", port=0, log_level="ERROR" if sys.argv[2] == "stdio" else "INFO")
calls = 0
asking = 0


@server.tool()
def pid() -> str:
    return str(os.getpid())


@server.tool()
async def count() -> str:
    """Says how many calls this process has had."""
    global calls
    calls += 1
    number = calls
    await anyio.sleep(0.01)
    return f"{os.getpid()} {number}"


@server.tool()
async def work(text: str) -> str:
    """Takes a while, as one that waits for somebody else does."""
    await anyio.sleep(0.2)
    return f"{os.getpid()} {text}"


@server.tool()
async def ask(text: str, together: int, ctx: Context) -> str:
    """Asks when so many calls are under way that all of them ask at the same time."""
    global asking
    asking += 1
    while asking % together:
        await anyio.sleep(0.01)
    form = create_model("Form", answer=(str, Field(default=f"the answer to {text}")))
    answer = await ctx.elicit(f"What do you say to {text}?", form)
    return f"{os.getpid()} {text}: {answer.action} {answer.data.answer}"


@server.tool()
def waiting() -> str:
    """Says how many calls of ask wait for others."""
    return str(asking)


@server.tool()
async def change(ctx: Context) -> str:
    """Says that the list of tools has changed, though the server never declared that it would."""
    await ctx.session.send_tool_list_changed()
    return "changed"


if journal := os.environ.get("JOURNAL"):
    with open(journal, "a") as file:
        print(os.getpid(), file=file)
with contextlib.suppress(KeyboardInterrupt):
    server.run(sys.argv[2])
