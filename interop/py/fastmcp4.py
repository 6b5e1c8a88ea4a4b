"""A server of FastMCP 4, which speaks both eras and knows what it did in variables of
its module.

    python fastmcp4.py
"""

import os
from dataclasses import dataclass

import anyio
from fastmcp import Context, FastMCP

server = FastMCP("fastmcp-4")
calls = 0


@dataclass
class Person:
    name: str


@server.tool
async def count() -> str:
    """Says how many calls this process has had."""
    global calls
    calls += 1
    number = calls
    await anyio.sleep(0.01)
    return f"{os.getpid()} {number}"


@server.tool
async def revision(ctx: Context) -> str:
    return str(ctx.request_context.protocol_version)


@server.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", Person)
    return f"{answer.action} {answer.data.name}"


@server.tool
async def spare() -> str:
    return "spare"


@server.tool
async def hide(ctx: Context) -> str:
    """Hides a tool from this session."""
    await ctx.disable_components(names={"spare"})
    return "hidden"


server.run("stdio", show_banner=False)
