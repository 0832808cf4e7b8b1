"""What `npx rescind wrap` and `uvx rescind wrap` leave: clients that start their servers also when the cache is gone, calls that
can be seen and stopped, and after `rescind uninstall` the home as it was, byte for byte."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from description import ROOT

from . import hung
from .way import IS_WINDOWS, WITHIN, Bench, expect, left_out

# Ends at once, and leaves a mark that its client sees.
SERVER = [sys.executable, "-I", "-c", "import sys; sys.stderr.write('the server has started')"]
FILES = {
    ".cursor/mcp.json": json.dumps({"mcpServers": {"one": {"command": SERVER[0], "args": SERVER[1:]}, "two": {"command": "x"}}}),
    ".codex/config.toml": "# mine\n[mcp_servers.three]\ncommand = 'x'\n",
    ".local/share/other/file": "stays",
} | ({} if IS_WINDOWS else {path: json.dumps(content, indent=2) for path, content in hung.FILES.items()})


def check(bench: Bench, registry: str) -> None:
    if npx := shutil.which("npx"):
        play(bench, "npx", [npx, "--yes", "--registry", registry, "rescind"])
    else:
        left_out("npx and its cache", "npx is not here")
    if uvx := shutil.which("uvx") or shutil.which("uvx", path=str(ROOT / "target/zig/bin")):
        options = ["--quiet", "--no-config", "--python", sys.executable, "--default-index", f"{registry}/simple"]
        play(bench, "uvx", [uvx, *options, "rescind"])
    else:
        left_out("uvx and its cache", "uv is not here")


def play(bench: Bench, name: str, command: list[str]) -> None:
    home = Path(tempfile.mkdtemp(dir=bench.scratch))
    cache = Path(tempfile.mkdtemp(dir=bench.scratch))
    # uv locks a folder of tools, too.
    caches = {"npm_config_cache": "npm", "UV_CACHE_DIR": "uv", "UV_TOOL_DIR": "tools"}
    environment = bench.environment | {"HOME": str(home)} | {name: str(cache / folder) for name, folder in caches.items()}
    if IS_WINDOWS:
        environment |= {one: str(home) for one in ("USERPROFILE", "LOCALAPPDATA", "APPDATA")}
    for path, text in FILES.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(text.encode())
    before = everything(home)

    def run(words: list[str], **more: str) -> subprocess.CompletedProcess:
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": WITHIN}
        return subprocess.run(words, env=environment | more, cwd=home, **options)

    def succeeds(what: str, words: list[str], **more: str) -> str:
        ran = run(words, **more)
        expect(f"{name}: {what}", ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout + ran.stderr

    tools = {"PATH": os.environ["PATH"]}
    said = succeeds("wrap", [*command, "wrap", "--all", "--yes"], **tools)
    expect(f"{name}: what it calls itself", f"`{name} rescind uninstall` removes" in said, True, said)
    entry = json.loads((home / ".cursor/mcp.json").read_text())["mcpServers"]["one"]
    program = Path(entry["command"])
    expect(f"{name}: the program is in the home", program.is_relative_to(home), True, str(program))
    expect(f"{name}: wrap again", "nothing to wrap" in succeeds("again", [*command, "wrap", "--all", "--yes"], **tools), True)
    doctor = run([*command, "doctor"], **tools)
    expect(f"{name}: doctor", (doctor.returncode, "all is well" in doctor.stdout), (0, True), doctor.stdout + doctor.stderr)

    person = None if IS_WINDOWS else hung.Home(name, home, environment)
    if person:
        person.starts_all(program)
        hanging = json.loads((home / ".mcporter/mcporter.json").read_text())["mcpServers"]["hanging"]
        person.ends_hung_calls(program, hanging)
    shutil.rmtree(cache)
    if person:
        person.starts_all(program)
    said = succeeds("its server starts without the cache", [str(program), *entry["args"]])
    expect(f"{name}: the server", "the server has started" in said, True, said)
    said = succeeds("uninstall", [str(program), "uninstall", "--yes"])
    servers = 3 if IS_WINDOWS else 6
    expect(f"{name}: what uninstall unwraps", f"unwrapped {servers} servers in {servers - 1} files" in said, True, said)
    after = everything(home)
    expect(f"{name}: the home", {path: after.get(path) for path in before}, before)
    # Clients have written files of their own.
    ours = [path for path in after.keys() - before.keys() if "rescind" in path or not hung.clients()]
    expect(f"{name}: what is left in the home", ours, [])
    print(f"{name} rescind wrap: servers start without its cache, and uninstall leaves the home as it was")


def everything(home: Path) -> dict[str, bytes | None]:
    return {str(one.relative_to(home)): one.read_bytes() if one.is_file() else None for one in sorted(home.rglob("*"))}
