"""A call that hangs, as its person finds and ends it: seen with its name and arguments, cancelled, and its server ended."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from description import ROOT

from .way import WITHIN, expect, left_out

# Never answers its one tool, whatever is cancelled, and marks what it sees.
SERVER = """
import json, os, sys
def mark(event):
    with open(os.environ["HUNG_MARKS"], "a") as marks:
        marks.write(f"{event} {os.getpid()} {os.readlink(f'/proc/{os.getppid()}/exe')}\\n")
mark("started")
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked.get("method"), asked.get("params") or {}
    if method == "tools/call":
        mark("called")
    elif method == "notifications/cancelled":
        mark("cancelled")
    elif "id" in asked:
        tool = {"name": "hangs", "description": "Never ends", "inputSchema": {"type": "object"}}
        results = {
            "initialize": {
                "protocolVersion": params.get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hanging", "version": "1"},
            },
            "tools/list": {"tools": [tool]},
            "ping": {},
        }
        known = {"result": results[method]} if method in results else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"]} | known), flush=True)
"""
COMMAND = [sys.executable, "-I", "-c", SERVER]
MEMBERS = {"mcpServers": {"hanging": {"command": COMMAND[0], "args": COMMAND[1:]}}}

# Clients by their files, and the words by which each starts its servers.
FILES = {
    ".gemini/settings.json": MEMBERS,
    # Without the first member it would add that itself.
    ".config/opencode/opencode.json": {
        "$schema": "https://opencode.ai/config.json",
        "mcp": {"hanging": {"type": "local", "command": COMMAND, "enabled": True}},
    },
    ".mcporter/mcporter.json": MEMBERS,
}
# What leads a client out of its home, or off this machine.
ALONE = {name: "http://127.0.0.1:9" for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")} | {
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "GEMINI_TELEMETRY_ENABLED": "false",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
}


def clients() -> dict[str, list[str]] | None:
    """The real clients of those files, if all are installed."""
    node = str(next(ROOT.glob("peers/node/programs/node_modules/node-linux-*/bin/node"), ""))
    found = {
        "gemini": [node, str(ROOT / "peers/node/clients/node_modules/@google/gemini-cli/bundle/gemini.js")],
        "opencode": [str(ROOT / "peers/node/clients/node_modules/opencode-linux-x64/bin/opencode")],
        "mcporter": [node, str(ROOT / "peers/node/programs/node_modules/mcporter/dist/cli.js")],
    }
    if all(word and Path(word).exists() for command in found.values() for word in command):
        return found
    if os.environ.get("RESCIND_REQUIRE_PEERS") == "1":
        sys.exit("real clients: not installed under peers/")
    left_out("three real clients", "peers/install")
    return None


class Home:
    """A home whose servers are wrapped, with `environment` for what is started there."""

    def __init__(self, name: str, home: Path, environment: dict[str, str]) -> None:
        self.name, self.home = name, home
        self.marks = home.parent / f"{home.name}.marks"
        self.environment = environment | ALONE | {"PATH": os.environ["PATH"], "HUNG_MARKS": str(self.marks)}

    def start(self, words: list[str]) -> subprocess.Popen:
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(words, env=self.environment, cwd=self.home, **options)

    def run(self, what: str, words: list[str], code: int = 0) -> str:
        started = self.start(words)
        said = started.communicate(timeout=WITHIN)[0].decode(errors="replace")
        expect(f"{self.name}: {what}", started.returncode, code, said)
        return said

    def marked(self, event: str) -> list[list[str]]:
        lines = self.marks.read_text().splitlines() if self.marks.exists() else []
        return [words for words in (line.split(" ", 2) for line in lines) if words[0] == event]

    def waits_for(self, event: str) -> list[str]:
        begun = time.monotonic()
        while not (found := self.marked(event)):
            expect(f"{self.name}: {event} within {WITHIN} s", time.monotonic() - begun < WITHIN, True)
            time.sleep(0.01)
        return found[0]

    def starts_all(self, program: Path) -> None:
        """Each client starts its server by this program."""
        for client, command in (clients() or {}).items():
            self.marks.unlink(missing_ok=True)
            said = self.run(client, [*command, *(["list"] if client == "mcporter" else ["mcp", "list"])])
            parents = {Path(words[2]) for words in self.marked("started")}
            expect(f"{self.name}: who starts the server of {client}", parents, {program.resolve()}, said)

    def ends_hung_calls(self, program: Path, entry: dict) -> None:
        """Of a client that waits on after the stop, and of a real one, which leaves when its call has failed."""
        self.ends(self.calls_by_frames(entry), program, waits_on=True)
        if installed := clients():
            self.ends(self.start([*installed["mcporter"], "call", "hanging.hangs", "question=why"]), program, waits_on=False)

    def ends(self, call: subprocess.Popen, program: Path, waits_on: bool) -> None:
        server = int(self.waits_for("called")[1])
        seen = self.run("ps", [str(program), "ps", "--args"])
        expect(f"{self.name}: the call is seen", all(word in seen for word in ("hanging", "hangs", "question", "why")), True, seen)
        stop = [str(program), "stop", "--within", "500ms"]
        if waits_on:
            said = self.run("stop", stop, code=1)
            expect(f"{self.name}: of a silent server", "1 unknown" in said, True, said)
        else:
            said = self.start(stop).communicate(timeout=WITHIN)[0].decode()
        self.waits_for("cancelled")
        said += self.run("its end", [*stop, "--kill=unknown"])
        expect(f"{self.name}: the server has ended", Path(f"/proc/{server}").exists(), False, said)
        if call.stdin:
            call.stdin.close()
        call.stdout.read()
        call.wait(WITHIN)
        self.marks.unlink()

    def calls_by_frames(self, entry: dict) -> subprocess.Popen:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        call = subprocess.Popen([entry["command"], *entry["args"]], env=self.environment, cwd=self.home, **pipes)
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "frames", "version": "1"}}
        frames = [
            {"id": 1, "method": "initialize", "params": about},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "hangs", "arguments": {"question": "why"}}},
        ]
        for frame in frames:
            call.stdin.write(json.dumps({"jsonrpc": "2.0"} | frame).encode() + b"\n")
        call.stdin.flush()
        return call
