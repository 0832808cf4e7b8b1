"""Each package, installed as people install it."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from description import ROOT, here, version

from .way import IS_WINDOWS, Bench, Way, expect, left_out

VERSION = version()
PROGRAM = "rescind.exe" if IS_WINDOWS else "rescind"
SCRIPTS = "Scripts" if IS_WINDOWS else "bin"


def bare(bench: Bench, folder: Path) -> Way:
    """The program by itself, from its archive."""
    name = f"rescind-{VERSION}-{here().target}"
    if IS_WINDOWS:
        with zipfile.ZipFile(folder / f"{name}.zip") as archive:
            archive.extractall(bench.scratch)
    else:
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            archive.extractall(bench.scratch, filter="data")
    return Way("the program", [str(bench.scratch / name / PROGRAM)])


def npm(bench: Bench, node: str, registry: str) -> list[Way]:
    """With this Node alone; and as with an older one, if it can become another program."""
    found = os.path.abspath(shutil.which(node))
    folder = Path(tempfile.mkdtemp(dir=bench.scratch))
    if not IS_WINDOWS:
        (folder / "node").symlink_to(found)
    path = str(Path(found).parent) if IS_WINDOWS else str(folder)
    installed = Path(tempfile.mkdtemp(dir=bench.scratch))
    npm_install(bench, registry, "--prefix", installed, "rescind")
    packages = [one.name for one in (installed / "node_modules/@rescind").iterdir()]
    expect("packages of platforms", packages, [here().npm_name.removeprefix("@rescind/")])
    about = "process.stdout.write(`${process.version} ${process.platform !== 'win32' && 'execve' in process}`)"
    named, becomes = bench.tool(found, "-e", about).split()
    command = [str(installed / "node_modules/.bin" / ("rescind.cmd" if IS_WINDOWS else "rescind"))]
    alone = [found, "-e", "0"]
    if becomes == "false":
        return [Way(f"npm, Node {named}, which stays", command, path, alone, stays=True)]
    # Read by Node at its start.
    older = folder / "older.cjs"
    older.write_text("delete process.execve;\n")
    environment = {"NODE_OPTIONS": f"--require={older}"}
    return [
        Way(f"npm, Node {named}, replaced", command, path, alone),
        Way(f"npm, Node {named}, made to stay", command, path, environment=environment, stays=True),
    ]


def npm_install(bench: Bench, registry: str, *words: str | Path) -> None:
    options = ["--registry", registry, "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    bench.tool(shutil.which("npm"), "install", *options, *words)


def venv(bench: Bench) -> Path:
    """Python alone, and its pip."""
    folder = Path(tempfile.mkdtemp(dir=bench.scratch))
    bench.tool(sys.executable, "-m", "venv", folder)
    return folder


def pip(bench: Bench, environment: Path, *words: str | Path) -> str:
    python = environment / SCRIPTS / "python"
    return bench.tool(python, "-m", "pip", "--disable-pip-version-check", *words)


def wheel_file(folder: Path) -> Path:
    (packed,) = (folder / "pypi").glob(f"*{here().wheel}.whl")
    return packed


def wheel(bench: Bench, folder: Path) -> list[Way]:
    environment = venv(bench)
    pip(bench, environment, "install", "--quiet", "--no-index", wheel_file(folder))
    pip(bench, environment, "check")
    python = str(environment / SCRIPTS / "python")
    return [
        Way("wheel", [str(environment / SCRIPTS / PROGRAM)]),
        Way("python -m", [python, "-m", "rescind"], interpreter=[python, "-c", "pass"]),
    ]


def other_ways(bench: Bench, folder: Path, registry: str) -> None:
    """Those that lead to the same files: each prints the version."""
    if shutil.which("npm"):
        from_npm(bench, registry)
    target = bench.scratch / "target"
    environment = venv(bench)
    pip(bench, environment, "install", "--quiet", "--no-index", "--target", target, wheel_file(folder))
    for command in ([target / "bin" / PROGRAM], ["env", f"PYTHONPATH={target}", sys.executable, "-m", "rescind"]):
        if not IS_WINDOWS or command[0] != "env":
            prints_version(bench, "pip install --target", *command)
    pip(bench, environment, "install", "--quiet", "--no-index", "--find-links", folder / "pypi", "rescind")
    pip(bench, environment, "uninstall", "--quiet", "--yes", "rescind")
    expect("what pip leaves", sorted(one.name for one in environment.rglob("*rescind*")), [])
    uvx = shutil.which("uvx") or shutil.which("uvx", path=str(ROOT / "target/zig/bin"))
    if uvx:
        options = ["--quiet", "--no-config", "--python", sys.executable, "--default-index", f"{registry}/simple"]
        prints_version(bench, "uvx", uvx, *options, "rescind")
    else:
        left_out("uvx", "uv is not here")


def from_npm(bench: Bench, registry: str) -> None:
    npm, npx = shutil.which("npm"), shutil.which("npx")
    asked = ["--yes", "--registry", registry]
    if npx:
        prints_version(bench, "npx", npx, *asked, "rescind")
    prints_version(bench, "npm exec", npm, "exec", *asked, "--", "rescind")

    prefix = bench.scratch / "global"
    npm_install(bench, registry, "--global", "--prefix", prefix, "rescind")
    prints_version(bench, "npm install --global", prefix / ("rescind.cmd" if IS_WINDOWS else "bin/rescind"))

    without = bench.scratch / "without"
    without.mkdir()
    npm_install(bench, registry, "--prefix", without, "--omit=optional", "rescind")
    command = [shutil.which("node"), str(without / "node_modules/rescind/bin/rescind.js"), "--version"]
    ran = subprocess.run(command, env=bench.environment, capture_output=True, text=True)
    expect("without its platform's package", (ran.returncode, ran.stdout), (127, ""))
    expect("what it says then", "Install without --omit=optional" in ran.stderr, True, ran.stderr)
    print("npm install --omit=optional: 127, and what to do")


def prints_version(bench: Bench, name: str, *command: str | Path) -> None:
    empty = tempfile.mkdtemp(dir=bench.scratch)
    expect(name, bench.tool(*command, "--version", cwd=empty), f"rescind {VERSION}\n")
    print(f"{name}: as expected")
