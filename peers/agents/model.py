"""A model on the loopback, for Anthropic's Messages and OpenAI's Responses: it does what its prompt says, and nothing
else decides its replies.

`steps(agent one, agent two, shell three)` in a prompt is a list of calls, each made in a reply of its own: an agent in
the background, whose prompt is `steps(shell one)`, and the work `three` as a shell command. `ask three` is the same
command, for which a person is to be asked. A reply after the last is text.
"""

import json
import re
import shlex
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORK = Path(__file__).with_name("work")

STEPS = re.compile(r"steps\(([^)]*)\)")

# Milliseconds that Codex waits for a command before its turn goes on beside it.
YIELD = 30_000


class Model:
    """Serves on a free port until `close`. `requests` are the bodies of all that was asked; commands work in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[dict] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def command(self, name: str) -> str:
        return shlex.join([str(WORK), str(self.folder / name)])


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply({"object": "list", "data": [], "models": []})

        def do_HEAD(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                request = json.loads(body)
            except ValueError:
                return self._reply({})
            model.requests.append({"path": self.path, "body": request})
            path = self.path.partition("?")[0]
            if path.endswith("/count_tokens"):
                self._reply({"input_tokens": 1})
            elif path.endswith("/messages"):
                message = _message(model, request)
                if request.get("stream"):
                    self._stream(_message_events(message))
                else:
                    self._reply(message)
            elif path.endswith("/responses"):
                self._stream(_response_events(_items(model, request)))
            else:
                self._reply({})

        def _reply(self, value: dict) -> None:
            self._send("application/json", json.dumps(value))

        def _stream(self, events: list[dict]) -> None:
            lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
            self._send("text/event-stream", "".join(lines))

        def _send(self, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            try:
                if self.command != "HEAD":
                    self.wfile.write(data)
            except OSError:
                pass  # Its client was stopped meanwhile.

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _step(texts_and_calls: list[str | None]) -> tuple[str, str] | None:
    """What is to be done next, by what was said since the last prompt with steps; `None` stands for a call."""
    for index in range(len(texts_and_calls) - 1, -1, -1):
        said = texts_and_calls[index]
        if said is not None and (found := STEPS.findall(said)):
            steps = [step.split() for step in found[-1].split(",")]
            done = texts_and_calls[index:].count(None)
            return (steps[done][0], steps[done][1]) if done < len(steps) else None
    return None


def _message(model: Model, request: dict) -> dict:
    """A message of Anthropic's API."""
    story: list[str | None] = []
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "text" and message["role"] == "user":
                story.append(block["text"])
            elif block["type"] == "tool_use":
                story.append(None)
    tools = {tool["name"]: tool for tool in request.get("tools") or []}
    content = {"type": "text", "text": "All is done."}
    if tools and (step := _step(story)):
        kind, name = step
        tool = next(agent for agent in ("Agent", "Task") if agent in tools) if kind == "agent" else "Bash"
        command = {"command": model.command(name), "description": f"Work {name}", "timeout": 600_000}
        agent = {
            "description": f"Work {name}",
            "prompt": f"steps(shell {name})",
            "subagent_type": "general-purpose",
            "run_in_background": True,
        }
        wanted = agent if kind == "agent" else command
        known = tools[tool]["input_schema"]["properties"]
        call = {key: value for key, value in wanted.items() if key in known}
        content = {"type": "tool_use", "id": f"toolu_{len(model.requests)}", "name": tool, "input": call}
    is_call = content["type"] == "tool_use"
    return {
        "id": f"msg_{len(model.requests)}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [content],
        "stop_reason": "tool_use" if is_call else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _message_events(message: dict) -> list[dict]:
    content = message["content"][0]
    if content["type"] == "text":
        start, delta = {**content, "text": ""}, {"type": "text_delta", "text": content["text"]}
    else:
        start = {**content, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(content["input"])}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def _items(model: Model, request: dict) -> list[dict]:
    """The one item of a response of OpenAI's API."""
    calls = ("function_call", "custom_tool_call", "local_shell_call")
    story: list[str | None] = []
    for item in request["input"]:
        if item["type"] in calls:
            story.append(None)
        elif not item["type"].endswith("_output"):
            story.append(json.dumps(item, ensure_ascii=False))
    number = len(model.requests)
    step = _step(story)
    made = step and _call(model, request.get("tools") or [], *step)
    if made:
        return [{"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", **made}]
    text = {"type": "output_text", "text": "All is done.", "annotations": []}
    return [{"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}]


def _call(model: Model, tools: list[dict], kind: str, name: str) -> dict | None:
    """A call of the tool that is there for it."""
    there = {}
    for tool in tools:
        for one in tool.get("tools") or [tool]:
            there[one.get("name")] = (one, tool["name"] if "tools" in tool else None)
    names = ("spawn_agent",) if kind == "agent" else ("exec_command", "shell_command", "shell")
    found = next((there[one] for one in names if one in there), None)
    if not found:
        return None
    tool, namespace = found
    known = tool["parameters"]["properties"]
    words = model.command(name)
    wanted = {
        "cmd": words,
        "command": ["sh", "-c", words] if known.get("command", {}).get("type") == "array" else words,
        "yield_time_ms": YIELD,
        "timeout_ms": 600_000,
    }
    if kind == "ask":
        wanted |= {"sandbox_permissions": "require_escalated", "justification": "It has to leave marks."}
    if kind == "agent":
        prompt = f"steps(shell {name})"
        wanted = {"message": prompt, "task_name": name, "fork_turns": "none", "fork_context": False}
    arguments = json.dumps({key: value for key, value in wanted.items() if key in known})
    made = {"name": tool["name"], "arguments": arguments}
    return made | ({"namespace": namespace} if namespace else {})


def _response_events(items: list[dict]) -> list[dict]:
    response = {"id": f"resp_{items[0]['id']}", "object": "response", "output": []}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    events: list[dict] = [{"type": "response.created", "response": {**response, "status": "in_progress"}}]
    for index, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    done = {**response, "status": "completed", "output": items, "usage": usage}
    return [*events, {"type": "response.completed", "response": done}]
