"""A client of the Python SDK over Streamable HTTP, or HTTP+SSE if the URL ends in /sse.

    python client.py URL REVISION

It is driven by lines of JSON on standard input, as ts/drive.mjs says.
"""

import asyncio
import functools
import json
import sys

import anyio
import mcp_types as types
from mcp import Client
from mcp.client import session, sse
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

url, revision = sys.argv[1:]
questions = {}
calls = {}


def say(**line):
    print(json.dumps(line), flush=True)


def plain(model):
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


async def ask(method, params, kind):
    number = len(questions) + 1
    questions[number] = asyncio.get_running_loop().create_future()
    say(ask=number, method=method, params=params)
    return kind.model_validate(await questions[number])


async def sample(_, params):
    return await ask("sampling/createMessage", plain(params), types.CreateMessageResult)


async def elicit(_, params):
    return await ask("elicitation/create", plain(params), types.ElicitResult)


async def roots(_):
    return await ask("roots/list", {}, types.ListRootsResult)


async def tell(message):
    if isinstance(message, Exception):
        print(f"the client says: {message!r}", file=sys.stderr)
    else:
        say(**plain(message))


async def do(client, tasks, method, params):
    match method:
        case "callTool":
            return await client.call_tool(params["name"], params.get("arguments"), meta=params.get("_meta"))
        case "listTools":
            return await client.list_tools()
        case "listResources":
            return await client.list_resources()
        case "listResourceTemplates":
            return await client.list_resource_templates()
        case "listPrompts":
            return await client.list_prompts()
        case "readResource":
            return await client.read_resource(params["uri"])
        case "getPrompt":
            return await client.get_prompt(params["name"], params["arguments"])
        case "complete":
            return await client.complete(types.PromptReference.model_validate(params["ref"]), params["argument"])
        case "subscribeResource":
            return await client.subscribe_resource(params["uri"])
        case "unsubscribeResource":
            return await client.unsubscribe_resource(params["uri"])
        case "setLoggingLevel":
            return await client.set_logging_level(params["level"])
        case "ping":
            return await client.send_ping()
        case "listen":
            await tasks.start(listen, client, params)
            return types.EmptyResult()
    raise ValueError(f"there is no method {method}")


async def listen(client, filter, *, task_status):
    async with client.listen(
        tools_list_changed=filter["toolsListChanged"],
        prompts_list_changed=filter["promptsListChanged"],
        resources_list_changed=filter["resourcesListChanged"],
        resource_subscriptions=filter["resourceSubscriptions"],
    ) as events:
        task_status.started()
        async for _ in events:
            pass  # tell has it as well


async def call(client, tasks, id, method, params):
    with anyio.CancelScope() as calls[id]:
        try:
            say(id=id, result=plain(await do(client, tasks, method, params)))
        except MCPError as e:
            say(id=id, error={"code": e.code, "message": str(e)})
        except Exception as e:
            say(id=id, error={"code": 0, "message": repr(e)})


async def main():
    modern = revision in types.version.MODERN_PROTOCOL_VERSIONS
    if not modern:
        session.LATEST_HANDSHAKE_VERSION = revision  # the SDK always asks for its newest
    # This client lacks the option that the other one has for large messages.
    sse.sse_within_origin = functools.partial(sse.sse_within_origin, max_event_size=None)
    client = Client(
        sse.sse_client(url) if url.endswith("/sse") else streamable_http_client(url, max_sse_event_size=None),
        mode="auto" if modern else "legacy",
        cache=None,
        log_level="debug",
        sampling_callback=sample,
        elicitation_callback=elicit,
        list_roots_callback=roots,
        message_handler=tell,
    )
    async with client, anyio.create_task_group() as tasks:
        say(id=0, result={"server": plain(client.server_info), "revision": client.protocol_version})
        lines = asyncio.StreamReader(limit=1 << 24)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while text := await lines.readline():
            match json.loads(text):
                case {"cancel": id}:
                    calls[id].cancel()
                case {"answer": number, "result": result}:
                    questions[number].set_result(result)
                case {"id": id, "method": method, "params": params}:
                    tasks.start_soon(call, client, tasks, id, method, params)
        tasks.cancel_scope.cancel()


asyncio.run(main())
