"""A server of the crossings, of the Python SDK. It speaks the era it is spoken to in.

    python cross_server.py stdio|streamable-http

crossGoServer in cross_gosdk_test.go has the same tools.
"""

import contextlib
import functools
import os
import sys
import warnings

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

warnings.simplefilter("ignore")  # about what the newest revision deprecates
server = MCPServer("cross")
tool = server.tool(structured_output=False)
watched = set()  # resources, in the legacy era


class Person(BaseModel):
    name: str


def note(line):
    with open(os.environ["CROSS_JOURNAL"], "a") as journal:
        print(line, file=journal)


def modern(ctx):
    return ctx.protocol_version >= "2026"


def asking(request):
    return types.InputRequiredResult(input_requests={"q": request}, request_state="asked")


@tool
def echo(text: str = "") -> str:
    return text


@tool
def fail() -> str:
    raise ToolError("as asked")


@tool
async def progress(ctx: Context) -> str:
    for step in range(1, 4):
        await ctx.report_progress(step, 3)
    return "three times"


@tool
async def log(ctx: Context, text: str = "") -> str:
    await ctx.info(text)
    return "logged"


@tool
async def sample(ctx: Context) -> str | types.InputRequiredResult:
    question = types.SamplingMessage(role="user", content=types.TextContent(text="What is the capital?"))
    if not modern(ctx):
        return (await ctx.session.create_message(messages=[question], max_tokens=100)).content.text
    if not ctx.input_responses:
        return asking(types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[question], max_tokens=100)))
    return ctx.input_responses["q"].content.text


@tool
async def elicit(ctx: Context, text: str = "") -> str | types.InputRequiredResult:
    if not modern(ctx):
        answer = await ctx.elicit(text, Person)
        return f"{answer.action} {answer.data.name if answer.action == 'accept' else ''}".strip()
    if not ctx.input_responses:
        form = types.ElicitRequestFormParams(message=text, requested_schema=Person.model_json_schema())
        return asking(types.ElicitRequest(params=form))
    answer = ctx.input_responses["q"]
    return f"{answer.action} {(answer.content or {}).get('name', '')}".strip()


@tool
async def roots(ctx: Context) -> str | types.InputRequiredResult:
    if not modern(ctx):
        return str((await ctx.session.list_roots()).roots[0].uri)
    if not ctx.input_responses:
        return asking(types.ListRootsRequest())
    return str(ctx.input_responses["q"].roots[0].uri)


@tool
async def change(ctx: Context) -> str:
    await (ctx.notify_tools_changed() if modern(ctx) else ctx.session.send_tool_list_changed())
    return "changed"


@tool
async def touch(ctx: Context) -> str:
    if modern(ctx):
        await ctx.notify_resource_updated("test://watched")
    elif watched:
        await ctx.session.send_resource_updated("test://watched")
    return "touched"


@tool
async def wait(ctx: Context, text: str = "") -> str:
    note(f"began {text}")
    try:
        await anyio.sleep_forever()
    finally:
        note(f"cancelled {text}")


@server.resource("test://text")
def some_text() -> str:
    return "some text"


@server.resource("test://watched")
def watched_text() -> str:
    return "some text"


@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."


@server.completion()
async def complete(_ref, argument, _context):
    return types.Completion(values=[v for v in ("paris", "park", "party") if v.startswith(argument.value)])


# What follows this server class leaves out: subscriptions and log levels of the
# legacy era, and to say that there are list changes and log messages at all.
async def subscribe(_ctx, params):
    watched.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(_ctx, params):
    watched.discard(str(params.uri))
    return types.EmptyResult()


async def set_level(_ctx, _params):
    return types.EmptyResult()


low = server._lowlevel_server
low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
low.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
low.create_initialization_options = functools.partial(low.create_initialization_options, NotificationOptions(tools_changed=True))

with contextlib.suppress(KeyboardInterrupt):
    server.run(sys.argv[1], **({} if sys.argv[1] == "stdio" else {"port": 0}))
