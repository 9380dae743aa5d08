"""A client as people write them in Python: client.py URL TOKEN, or client.py stdio WORDS…

Uses an agent that has `echo` and `refund`, which asks, and prints what it got as one line of JSON.
"""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

told = []
asked = []


async def progress(done, total, message):
    told.append(message)


async def person(message, response_type, params, context):
    asked.append(message)
    return {"allow": True}


async def main(how, *more):
    if how == "stdio":
        transport = StdioTransport(more[0], list(more[1:]), env=dict(os.environ))
    else:
        transport = StreamableHttpTransport(how, headers={"Authorization": f"Bearer {more[0]}"})
    async with Client(transport, progress_handler=progress, elicitation_handler=person) as client:
        tools = [tool.name for tool in await client.list_tools()]
        results = []
        for name, arguments in [("echo", {"text": "hi"}), ("refund", {}), ("echo", {"text": 1})]:
            result = await client.call_tool(name, arguments, raise_on_error=False)
            results.append([result.is_error, result.content[0].text if result.content else ""])
        many = [client.call_tool("echo", {"text": str(n)}) for n in range(100)]
        many = [result.content[0].text for result in await asyncio.gather(*many)]
        print(json.dumps({
            "tools": tools,
            "results": results,
            "asked": asked,
            "told": "echo runs" in told,
            "many": many == [str(n) for n in range(100)],
        }))


asyncio.run(main(*sys.argv[1:]))
