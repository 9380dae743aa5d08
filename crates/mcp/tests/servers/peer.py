"""A server as people write them in Python: peer.py stdio, or peer.py http PORT."""

import sys


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def fail() -> str:
    """Fails."""
    raise ValueError("not today")


if sys.argv[1] == "stdio":
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("peer")
    server.tool()(add)
    server.tool()(fail)
    server.run("stdio")
else:
    from fastmcp import FastMCP

    server = FastMCP("peer")
    server.tool(add)
    server.tool(fail)
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
