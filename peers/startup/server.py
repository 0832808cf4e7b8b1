#!/usr/bin/env python3
"""A server with the tool `greet`, by hand; after so many answers it exits with that code: server.py [ANSWERS CODE]"""

import json
import sys

NAMES = ["protocolVersion", "capabilities", "serverInfo"]
left, code = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (-1, 0)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if left == 0:
        print("Error: EXAMPLE_TOKEN was revoked", file=sys.stderr)
        sys.exit(code)
    left -= 1
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        answer["result"] = dict(zip(NAMES, [version, {"tools": {}}, {"name": "greeter", "version": "1"}], strict=True))
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
