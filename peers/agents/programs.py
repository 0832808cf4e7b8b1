"""The programs, as their clients lead them: a session, a prompt, the client's own Stop, and the cards that it shows."""

import json
import platform
from pathlib import Path

from model import Model
from talk import Talk

PEERS = Path(__file__).resolve().parents[1]
PACKAGES = PEERS / "node/agents/node_modules"
MACHINE = "arm64" if platform.machine() == "aarch64" else "x64"
NODE = PEERS / f"node/programs/node_modules/node-linux-{MACHINE}/bin/node"

# No network but the loopback.
NOWHERE = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
}


class Led:
    """A program with one session. It is shown cards, and answers them at once unless it `keeps` them."""

    name: str
    package: str

    def __init__(self, before: list[str], folder: Path, env: dict[str, str], model: Model, asks: bool) -> None:
        self.asks = asks
        self.cards: list[dict] = []
        home = folder / "home"
        home.mkdir()
        ours = NOWHERE | {"HOME": str(home), "PATH": f"{NODE.parent}:{env['PATH']}"}
        env = env | ours | self.environment(home, model, asks)
        self.talk = Talk([*before, *self.command()], folder, env, self._asked)
        try:
            self.session = self.open(folder)
        except RuntimeError:
            self.talk.close(folder / "trace")
            raise

    @classmethod
    def version(cls) -> str:
        package = PACKAGES / cls.package / "package.json"
        return json.loads(package.read_text())["version"] if package.exists() else ""

    @classmethod
    def missing(cls) -> str | None:
        there = (PACKAGES / cls.package).is_dir() and NODE.exists()
        return None if there else "it is not installed (peers/install --agents does it)"

    def _asked(self, card: dict) -> None:
        self.cards.append(card)
        if not self.asks:
            self.allow(card)

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self, home: Path, model: Model, asks: bool) -> dict[str, str]:
        raise NotImplementedError

    def open(self, folder: Path) -> str:
        raise NotImplementedError

    def prompt(self, text: str) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def allow(self, card: dict) -> None:
        raise NotImplementedError


class Acp(Led):
    # The mode of its session, where it does not begin in it.
    mode: str | None = None
    last: int

    def open(self, folder: Path) -> str:
        info = {"name": "left-alive", "version": "1"}
        capabilities = {"subagents": {}, "fs": {"readTextFile": False, "writeTextFile": False}}
        hello = {"protocolVersion": 1, "clientInfo": info, "clientCapabilities": capabilities}
        self.talk.result("initialize", hello, jsonrpc="2.0")
        opened = self.talk.result("session/new", {"cwd": str(folder), "mcpServers": []}, jsonrpc="2.0")["sessionId"]
        if self.mode:
            self.talk.result("session/set_mode", {"sessionId": opened, "modeId": self.mode}, jsonrpc="2.0")
        return opened

    def prompt(self, text: str) -> None:
        prompt = [{"type": "text", "text": text}]
        self.last = self.talk.request("session/prompt", {"sessionId": self.session, "prompt": prompt}, jsonrpc="2.0")

    def has_ended(self) -> bool:
        return self.talk.answer(self.last, 0) is not None

    def stop(self) -> None:
        self.talk.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self.session}})

    def allow(self, card: dict) -> None:
        options = (card["params"].get("options")) or []
        once = [option["optionId"] for option in options if option["kind"] == "allow_once"]
        outcome = {"outcome": "selected", "optionId": once[0]} if once else {"outcome": "cancelled"}
        self.talk.send({"jsonrpc": "2.0", "id": card["id"], "result": {"outcome": outcome}})


class ClaudeAgent(Acp):
    name = "claude-agent-acp"
    package = "@agentclientprotocol/claude-agent-acp"
    # A person is asked for every command; in the mode that it begins in, another model.
    mode = "default"

    def command(self) -> list[str]:
        return [str(NODE), str(PACKAGES / self.package / "dist/index.js")]

    def environment(self, home: Path, model: Model, asks: bool) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "of-the-loopback",
            "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            # As root it is refused to run without asking, unless this is "1"; with another value it does not start.
            "IS_SANDBOX": "",
        }


# A model that Codex does not know is given the tools of any.
CODEX = """
model = "loopback"
model_provider = "loopback"
approval_policy = "{approvals}"
sandbox_mode = "{sandbox}"
check_for_update_on_startup = false
[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[feedback]
enabled = false
"""


def codex_home(home: Path, model: Model, asks: bool) -> str:
    folder = home / "codex"
    folder.mkdir()
    approvals, sandbox = ("on-request", "read-only") if asks else ("never", "danger-full-access")
    folder.joinpath("config.toml").write_text(CODEX.format(url=model.url, approvals=approvals, sandbox=sandbox))
    return str(folder)


class CodexAgent(Acp):
    name = "codex-acp"
    package = "@agentclientprotocol/codex-acp"

    def command(self) -> list[str]:
        return [str(NODE), str(PACKAGES / self.package / "dist/index.js")]

    def environment(self, home: Path, model: Model, asks: bool) -> dict[str, str]:
        return {
            "CODEX_HOME": codex_home(home, model, asks),
            "MODEL_PROVIDER": "loopback",
            "INITIAL_AGENT_MODE": "read-only" if asks else "agent-full-access",
            "NO_BROWSER": "1",
        }


class AppServer(Led):
    name = "Codex app-server"
    package = "@openai/codex"
    turn: str

    def command(self) -> list[str]:
        return [str(NODE), str(PACKAGES / self.package / "bin/codex.js"), "app-server"]

    def environment(self, home: Path, model: Model, asks: bool) -> dict[str, str]:
        return {"CODEX_HOME": codex_home(home, model, asks)}

    def open(self, folder: Path) -> str:
        info = {"name": "left-alive", "title": "left alive", "version": "1"}
        self.talk.result("initialize", {"clientInfo": info, "capabilities": {"experimentalApi": True}})
        self.talk.send({"method": "initialized"})
        return self.talk.result("thread/start", {"cwd": str(folder)})["thread"]["id"]

    def prompt(self, text: str) -> None:
        prompt = [{"type": "text", "text": text, "text_elements": []}]
        self.turn = self.talk.result("turn/start", {"threadId": self.session, "input": prompt})["turn"]["id"]

    def has_ended(self) -> bool:
        return self.talk.found("turn/completed", lambda params: params["turn"]["id"] == self.turn) is not None

    def stop(self) -> None:
        self.talk.request("turn/interrupt", {"threadId": self.session, "turnId": self.turn})

    def allow(self, card: dict) -> None:
        self.talk.send({"id": card["id"], "result": {"decision": "accept"}})


ALL: list[type[Led]] = [ClaudeAgent, CodexAgent, AppServer]
