"""A client of the Python SDK of a server that is started by a command; see client.py.

    python cross_client.py REVISION COMMAND [ARGUMENT...]
"""

import pathlib
import runpy
import sys

from mcp.client import streamable_http
from mcp.client.stdio import StdioServerParameters, stdio_client

revision, command, *args = sys.argv[1:]
# In place of the transport that client.py would take.
streamable_http.streamable_http_client = lambda *_, **__: stdio_client(StdioServerParameters(command=command, args=args))
sys.argv[1:] = ["http:", revision]
runpy.run_path(str(pathlib.Path(__file__).with_name("client.py")), run_name="__main__")
