"""Who is measured: how each is installed, pinned, started, and where it then listens."""

import json
import platform
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from marks import until
from process import Program

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent
PROGRAMS = PEERS / "node/programs"
NODE_GATEWAYS = PEERS / "node/gateways/node_modules"
TOWER = HERE / "target/bin/mcp-proxy"
CHILD = [sys.executable, "-I", "-S", str(HERE / "child.py")]


def node() -> str:
    """The Node that is pinned for programs, or the machine's."""
    machine = "arm64" if platform.machine() in ("aarch64", "arm64") else "x64"
    pinned = PROGRAMS / f"node_modules/node-linux-{machine}/bin/node"
    return str(pinned) if pinned.exists() else "node"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class NotStarted(Exception):
    """A gateway that did not come to listen."""

    def __init__(self, words: str) -> None:
        super().__init__("does not start")
        self.words = words


@dataclass
class Contender:
    """A command, and what has to be there for it."""

    name: str
    version: Callable[[], str]
    needs: list[Path]
    # Of a gateway: its command, given a free port and its folder. Of a stdio client: given the server's URL.
    command: Callable
    # What a gateway names its tools with before their own names, and the path it listens at.
    prefix: str = ""
    path: str = "/mcp"
    # Where a gateway says its address itself: a file, or a pattern in its words.
    address_file: str | None = None
    address_said: str | None = None

    def missing(self) -> str | None:
        """Why it cannot be run."""
        absent = [path for path in self.needs if not path.exists()]
        return f"not installed: {absent[0]} (peers/install)" if absent else None

    def start(self, folder: Path, env: dict[str, str], patience: float) -> tuple[Program, str]:
        """Starts a gateway before `child.py`; the program, and its URL."""
        port = free_port()
        program = Program(self.command(port, folder), folder, env)

        def url() -> str | None:
            if not program.is_running():
                return "ended"
            if self.address_file:
                file = folder / self.address_file
                return file.read_text() + self.path if file.exists() else None
            if self.address_said:
                said = program.says(self.address_said)
                return said and said.group(1)
            return f"http://127.0.0.1:{port}{self.path}" if accepts(port) else None

        try:
            found = until(url, patience)
            if not found or found == "ended":
                raise NotStarted(program.words())
        except BaseException:
            program.end()
            raise
        return program, found


def npm(folder: Path) -> Callable[[], str]:
    return lambda: json.loads((folder / "package.json").read_text())["version"]


def pip(folder: str, package: str) -> Callable[[], str]:
    pattern = rf"^{re.escape(package)}==(\S+)"
    return lambda: re.search(pattern, (PEERS / folder / "requirements.txt").read_text(), re.MULTILINE).group(1)


def crate() -> str:
    return re.match(r"mcp-proxy@(\S+)", (HERE / "cargo-install").read_text()).group(1)


def supergateway(*flags: str) -> Callable:
    """On the loopback at a free port: by itself it listens on all addresses."""

    def command(_port: int, _folder: Path) -> list[str]:
        loopback, gateway = PROGRAMS / "loopback.mjs", PROGRAMS / "node_modules/supergateway/dist/index.js"
        words = [node(), "--import", str(loopback), str(gateway), "--stdio", shlex.join(CHILD)]
        return [*words, "--outputTransport", "streamableHttp", *flags]

    return command


def npm_mcp_proxy(port: int, _folder: Path) -> list[str]:
    script = NODE_GATEWAYS / "mcp-proxy/dist/bin/mcp-proxy.mjs"
    return [node(), str(script), "--host", "127.0.0.1", "--port", str(port), "--server", "stream", "--", *CHILD]


def pypi_mcp_proxy(port: int, _folder: Path) -> list[str]:
    script = PEERS / "python1/.venv/bin/mcp-proxy"
    return [str(script), "--host", "127.0.0.1", "--port", str(port), "--pass-environment", "--", *CHILD]


def fastmcp(port: int, _folder: Path) -> list[str]:
    return [str(PEERS / "python-gateways/.venv/bin/python"), str(HERE / "fastmcp_proxy.py"), str(port), *CHILD]


def tower_mcp_proxy(port: int, folder: Path) -> list[str]:
    command, *arguments = CHILD
    config = f"""
[proxy]
name = "proxy"

[proxy.listen]
host = "127.0.0.1"
port = {port}

[[backends]]
name = "child"
transport = "stdio"
command = {json.dumps(command)}
args = {json.dumps(arguments)}
"""
    (folder / "proxy.toml").write_text(config)
    return [str(TOWER), "--config", "proxy.toml"]


class Rescind(Contender):
    """The command of this repository, which may be older than what is measured."""

    def __init__(self, binary: Path, command: Callable, subcommand: str, option: str) -> None:
        super().__init__("rescind", self._version, [], command, address_said=r"(http://\S+/mcp)\b")
        self.binary = binary
        self.subcommand = subcommand
        self.option = option

    def _version(self) -> str:
        return self._said("--version").split()[-1]

    def _said(self, *arguments: str) -> str:
        said = subprocess.run([self.binary, *arguments], capture_output=True, text=True, check=False)
        return said.stdout if said.returncode == 0 else ""

    def missing(self) -> str | None:
        if not self.binary.exists():
            return f"not built: {self.binary}"
        if self.option not in self._said(self.subcommand, "--help"):
            return f"not built: this binary has no `rescind {self.subcommand} {self.option}`"
        return None


def gateways(rescind: Path) -> list[Contender]:
    def serve(_port: int, _folder: Path) -> list[str]:
        return [str(rescind), "serve", "--listen", "127.0.0.1:0", "--", *CHILD]

    package = PROGRAMS / "node_modules/supergateway"
    return [
        Contender(
            "supergateway --stateful",
            npm(package),
            [package],
            supergateway("--stateful"),
            address_file="address",
        ),
        Contender("supergateway", npm(package), [package], supergateway(), address_file="address"),
        Contender(
            "npm mcp-proxy",
            npm(NODE_GATEWAYS / "mcp-proxy"),
            [NODE_GATEWAYS / "mcp-proxy"],
            npm_mcp_proxy,
        ),
        Contender(
            "PyPI mcp-proxy",
            pip("python1", "mcp-proxy"),
            [PEERS / "python1/.venv/bin/mcp-proxy"],
            pypi_mcp_proxy,
        ),
        Contender(
            "fastmcp create_proxy",
            pip("python-gateways", "fastmcp"),
            [PEERS / "python-gateways/.venv/bin/python"],
            fastmcp,
        ),
        Contender("crate mcp-proxy", crate, [TOWER], tower_mcp_proxy, prefix="child/", path="/"),
        Rescind(rescind, serve, "serve", "--listen"),
    ]


def clients(rescind: Path) -> list[Contender]:
    def mcp_remote(url: str) -> list[str]:
        return [node(), str(NODE_GATEWAYS / "mcp-remote/dist/proxy.js"), url, "--transport", "http-only"]

    def to_stdio(url: str) -> list[str]:
        return [node(), str(PROGRAMS / "node_modules/supergateway/dist/index.js"), "--streamableHttp", url]

    def fastmcp_run(url: str) -> list[str]:
        return [str(PEERS / "python-gateways/.venv/bin/fastmcp"), "run", url, "--no-banner", "--transport", "stdio"]

    def pypi(url: str) -> list[str]:
        return [str(PEERS / "python1/.venv/bin/mcp-proxy"), "--transport", "streamablehttp", url]

    def run(url: str) -> list[str]:
        return [str(rescind), "run", "--url", url]

    package = PROGRAMS / "node_modules/supergateway"
    remote = NODE_GATEWAYS / "mcp-remote"
    return [
        Contender("mcp-remote", npm(remote), [remote], mcp_remote),
        Contender("supergateway --streamableHttp", npm(package), [package], to_stdio),
        Contender("PyPI mcp-proxy", pip("python1", "mcp-proxy"), [PEERS / "python1/.venv/bin/mcp-proxy"], pypi),
        Contender(
            "fastmcp run",
            pip("python-gateways", "fastmcp"),
            [PEERS / "python-gateways/.venv/bin/fastmcp"],
            fastmcp_run,
        ),
        Rescind(rescind, run, "run", "--url"),
    ]
