"""A small server of the Python SDK on a free port, over Streamable HTTP or what is named: sse.

    python server.py [TRANSPORT]
"""

import contextlib
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from pydantic import BaseModel

server = MCPServer("python-sdk")


class Person(BaseModel):
    name: str


@server.tool(structured_output=False)
def echo(text: str) -> str:
    return text


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool(structured_output=False)
def fail() -> str:
    raise ToolError("as asked")


@server.tool(structured_output=False)
async def progress(ctx: Context) -> str:
    for step in range(1, 4):
        await ctx.report_progress(step, 3)
    return "three times"


@server.tool(structured_output=False)
async def change(ctx: Context) -> str:
    """Says that the list of tools has changed, which a legacy client hears on its own stream."""
    if ctx.protocol_version >= "2026":
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return "changed"


@server.tool(structured_output=False)
async def ask(ctx: Context) -> str | InputRequiredResult:
    if ctx.protocol_version < "2026":
        answer = await ctx.elicit("Who are you?", Person)
        return f"Hello, {answer.data.name}!"
    if not ctx.input_responses:
        question = ElicitRequestFormParams(message="Who are you?", requested_schema=Person.model_json_schema())
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=question)})
    return f"Hello, {ctx.input_responses['who'].content['name']}!"


@server.resource("test://text")
def text() -> str:
    return "some text"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


with contextlib.suppress(KeyboardInterrupt):
    server.run(*sys.argv[1:] or ["streamable-http"], port=0)
