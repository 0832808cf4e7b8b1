"""MCP tasks, in both eras: what becomes of a task after a stop, as its server's own words or marks show."""

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from marks import Marks, until
from process import environment
from programs import NODE, NOWHERE, PEERS
from scenes import AFTER, GROWTH, STOPS, Seen, operator_stops
from talk import STARTUP, Talk

EVERYTHING = PEERS / "node/mcp1/node_modules/@modelcontextprotocol/server-everything"
PREFIX = "io.modelcontextprotocol/"
MODERN = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientInfo": {"name": "left-alive", "version": "1"},
    f"{PREFIX}clientCapabilities": {"extensions": {f"{PREFIX}tasks": {}}},
}


@dataclass
class Server:
    """A server of tasks, for a client of one era."""

    name: str
    is_modern: bool
    # Speaks its client's era only behind this flag of `rescind run`.
    bridge: bool = False
    everything: bool = True

    def version(self) -> str:
        """Of the server, if it has one, and of its client's protocol."""
        package = EVERYTHING / "package.json"
        version = json.loads(package.read_text())["version"] if self.everything and package.exists() else ""
        return f"{version}, MCP {'2026-07-28' if self.is_modern else '2025-11-25'}".removeprefix(", ")

    def command(self, rescind: Path) -> list[str]:
        if self.everything:
            return [str(NODE), str(EVERYTHING / "dist/index.js")]
        return [str(rescind.parent / "examples/peer_task_server"), "memory", "--modern"]

    def missing(self, rescind: Path) -> str | None:
        command = self.command(rescind)
        if all(Path(word).exists() for word in command if word.startswith("/")):
            return None
        how = "peers/install" if self.everything else "cargo build -p rescind-cli --examples"
        return f"it is not installed ({how} does it)"


SERVERS = [
    Server("server-everything", is_modern=False),
    Server("server-everything", is_modern=True, bridge=True),
    Server("peer_task_server", is_modern=True, everything=False),
]
# How its client stops a task: by its name, or by giving up the wait for it, as SDKs do that know no more.
SCENES = {"task": "a task; Stop is `tasks/cancel`", "wait": "a task; Stop is that its client waits no longer"}


class Client:
    def __init__(self, server: Server, before: list[str], rescind: Path, folder: Path, env: dict[str, str]) -> None:
        self.server = server
        self.marks = Marks(folder / "marks")
        env = env | NOWHERE | {"PATH": f"{NODE.parent}:{env['PATH']}"}
        self.talk = Talk([*before, *server.command(rescind)], folder, env, lambda asked: None)
        self.wait: int | None = None

    def open(self) -> None:
        if not self.server.is_modern:
            info = {"name": "left-alive", "version": "1"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
            self.talk.result("initialize", hello, jsonrpc="2.0")
            self.talk.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._result("tools/list", {})

    def begin(self) -> None:
        """Starts a task, and waits for it as a client of its era does."""
        if self.server.everything:
            call = {"name": "simulate-research-query", "arguments": {"topic": "stops"}}
        else:
            call = {"name": "looks", "arguments": {"work": "own"}}
        asked = {} if self.server.is_modern else {"task": {"ttl": 600_000}}
        answer = json.dumps(self._result("tools/call", {**call, **asked}))
        self.task = re.search(r'"taskId": "([^"]*)"', answer).group(1)
        if not self.server.is_modern:
            self.wait = self.talk.request("tasks/result", {"taskId": self.task}, jsonrpc="2.0")

    def stop(self, scene: str) -> None:
        if scene == "task":
            self.talk.request("tasks/cancel", self._params({"taskId": self.task}), jsonrpc="2.0")
        elif self.wait:
            params = {"requestId": self.wait, "reason": "Stop"}
            self.talk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def lives(self) -> bool:
        """Whether the work went on to its end, or still goes on."""
        if self.server.everything:
            # Its work learns of a cancel when it reports its next stage, and says so.
            return not re.search("Research task .* failed", self.talk.program.words())
        before = len(self.marks.lines())
        time.sleep(GROWTH)
        return len(self.marks.lines()) > before or not self.marks.found("stopped")

    def _params(self, params: dict) -> dict:
        return {**params, "_meta": MODERN} if self.server.is_modern else params

    def _result(self, method: str, params: dict) -> dict:
        return self.talk.result(method, self._params(params), jsonrpc="2.0")


def play(server: Server, scene: str, rescind: Path, flags: list[str], stop: str, folder: Path) -> Seen | None:
    """Plays it once, in an empty folder of its own. `None` if there is no such play, or if it is one of another scene."""
    is_behind, who = STOPS[stop]
    if (server.bridge and not is_behind) or (scene == "wait" and who == "operator"):
        return None
    bridge = ["--bridge"] if server.bridge else []
    before = [str(rescind), "run", *bridge, *flags, "--"] if is_behind else []
    env = environment(folder, "both")
    seen = Seen()
    client = Client(server, before, rescind, folder, env)
    try:
        client.open()
        client.begin()
        if not server.everything:
            until(lambda: client.marks.found("progress"), STARTUP)
        if who == "operator":
            operator_stops(rescind, folder, env, seen)
        else:
            client.stop(scene)
        time.sleep(AFTER)
        if client.lives():
            seen.alive = {"task": 1}
    except RuntimeError as error:
        seen.failed = str(error)
    finally:
        client.talk.close(folder / "trace")
    return seen
