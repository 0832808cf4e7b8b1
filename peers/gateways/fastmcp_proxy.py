"""fastmcp's `create_proxy` before a stdio server: `fastmcp_proxy.py PORT COMMAND…`."""

import os
import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

port, command, *arguments = sys.argv[1:]
child = StdioTransport(command=command, args=arguments, env=dict(os.environ))
create_proxy(child, name="proxy").run(
    transport="http", host="127.0.0.1", port=int(port), path="/mcp", show_banner=False
)
