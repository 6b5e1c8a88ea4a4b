"""A client of the Python SDK that signs in, over Streamable HTTP.

    python signin.py URL

It prints {"page": URL} when a person has to go there, and waits for the browser to come back. Then it calls the tool
echo, refreshes its tokens, calls it again, and prints {"texts": [...], "pages": how many}.
"""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit

from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

url = sys.argv[1]


def say(**line):
    print(json.dumps(line), flush=True)


class Storage:
    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def main():
    arrived = asyncio.get_running_loop().create_future()

    async def answer(reader, writer):
        at = urlsplit((await reader.readline()).split()[1].decode())
        while (await reader.readline()).strip():
            pass
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p id=done>You can close this page.</p>")
        await writer.drain()
        writer.close()
        if at.path == "/callback" and not arrived.done():
            arrived.set_result({name: values[0] for name, values in parse_qs(at.query).items()})

    web = await asyncio.start_server(answer, "127.0.0.1", 0)
    redirect = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}/callback"
    storage, pages = Storage(), []

    async def show(page):
        pages.append(page)
        say(page=page)

    async def wait():
        got = await arrived
        return AuthorizationCodeResult(code=got["code"], state=got.get("state"), iss=got.get("iss"))

    async def call():
        auth = OAuthClientProvider(
            url,
            OAuthClientMetadata(
                client_name="Python SDK", redirect_uris=[redirect], grant_types=["authorization_code", "refresh_token"], token_endpoint_auth_method="none"
            ),
            storage,
            redirect_handler=show,
            callback_handler=wait,
        )
        async with create_mcp_http_client(auth=auth) as http, Client(streamable_http_client(url, http_client=http)) as client:
            await client.call_tool("echo", {"text": "before"})
            if storage.tokens is not None and texts:
                auth.context.token_expiry_time = 1  # so that it refreshes
            return (await client.call_tool("echo", {"text": "hello"})).content[0].text

    texts = []
    texts.append(await call())
    before = storage.tokens
    texts.append(await call())
    if storage.tokens.refresh_token == before.refresh_token:
        raise SystemExit("the tokens are those from before")
    say(texts=texts, pages=len(pages))
    web.close()


asyncio.run(main())
