"""A way to start the command, and the folder and environment that it is tried in."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

IS_WINDOWS = os.name == "nt"
# Seconds after which what has not happened never will.
WITHIN = 120


@dataclass
class Way:
    name: str
    command: list[str]
    # Folders of what it needs beside itself, such as Node.
    path: str = ""
    # What it is beside the program: its start-up is compared with that of both.
    interpreter: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    # Whether it is the parent of the program, rather than becoming it.
    stays: bool = False


class Bench:
    """An empty home, and no command in its path."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.home, nothing = scratch / "home", scratch / "nothing"
        for made in (self.home, nothing, scratch / "run"):
            made.mkdir(mode=0o700)
        self.environment = {
            "HOME": str(self.home),
            "PATH": str(nothing),
            "LANG": "C.UTF-8",
            "RESCIND_RUNTIME_DIR": str(scratch / "run"),
            "npm_config_cache": str(scratch / "npm-cache"),
            "npm_config_update_notifier": "false",
            "UV_CACHE_DIR": str(scratch / "uv-cache"),
        }
        if IS_WINDOWS:
            # Nothing starts there without these.
            kept = ("SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP")
            home = {name: str(self.home) for name in ("USERPROFILE", "LOCALAPPDATA", "APPDATA")}
            self.environment |= {name: os.environ[name] for name in kept if name in os.environ} | home

    def environment_of(self, way: Way) -> dict[str, str]:
        return self.environment | ({"PATH": way.path} if way.path else {}) | way.environment

    def run(self, way: Way, *words: str, **options) -> subprocess.CompletedProcess:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": WITHIN} | options
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([*way.command, *words], env=self.environment_of(way), cwd=self.home, **options)

    def start(self, way: Way, *words: str, **options) -> subprocess.Popen:
        pipe = subprocess.PIPE
        options = {"stdin": pipe, "stdout": pipe, "stderr": pipe} | options
        return subprocess.Popen([*way.command, *words], env=self.environment_of(way), cwd=self.home, **options)

    def tool(self, *command: str | Path, path: str | None = None, **options) -> str:
        """What an installer prints, which must succeed. It may use what this machine has."""
        environment = self.environment | {"PATH": path or os.environ["PATH"]}
        options = {"cwd": self.home, "timeout": 300, "text": True} | options
        pipe = subprocess.PIPE
        ran = subprocess.run([str(one) for one in command], env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, **options)
        expect(" ".join(map(str, command)), ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout


def expect(what: str, seen, expected, more: str = "") -> None:
    if seen != expected:
        sys.exit(f"{what}: {seen!r}, expected {expected!r}\n{more}")


def left_out(what: str, why: str) -> None:
    print(f"left out: {what} ({why})")
