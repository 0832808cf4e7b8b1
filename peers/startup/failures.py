"""Servers that do not start, or not as they should, each as a command; and what a person must be shown to mend it."""

import platform
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

SERVER = Path(__file__).with_name("server.py")


@dataclass
class Failure:
    """`facts` are what can be known, each with what shows it."""

    what: str
    command: list[str]
    facts: dict[str, str] = field(default_factory=dict)

    def shown(self, text: str) -> set[str]:
        return {name for name, sign in self.facts.items() if re.search(sign, text, re.IGNORECASE)}


MISSING = r"not found|ENOENT|no such file"
FORBIDDEN = r"permission denied|EACCES"
TOKEN = r"EXAMPLE_TOKEN"


def code(number: int) -> str:
    return rf"(exit(ed)?|code|status)[^\n]{{0,20}}\b{number}\b"


def failures(folder: Path) -> list[Failure]:
    """The servers, whose programs are put into `folder`."""

    def at(name: str, text: str | bytes = "", mode: int = 0o755) -> list[str]:
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return [str(path)]

    def script(name: str, text: str) -> list[str]:
        return at(name, f"#!/bin/sh\n{text}\n")

    def failure(what: str, command: list[str], **facts: str) -> Failure:
        program = re.escape(Path(command[0]).name)
        return Failure(what, command, {"program": program, **facts})

    python = f"exec {sys.executable} {SERVER}"
    # The head of a program for a processor that this one is not.
    machine = 0xF3 if platform.machine() != "riscv64" else 0x3E
    foreign = (b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + bytes([2, 0, machine, 0, 1, 0, 0, 0])).ljust(120, b"\0")
    (folder / "folder-server").mkdir()
    (folder / "loop-server").symlink_to("loop-server")
    node = "\n".join(f"    at frame{number} (file.js:{number})" for number in range(12))
    works = {"works": r"\bgreet\b"}
    return [
        failure("a program that is missing", ["uvx-missing", "some-server"], cause=MISSING),
        failure("a path that is missing", [str(folder / "gone" / "lost-server")], cause=MISSING),
        failure("a file that may not be executed", at("forbidden-server", "#!/bin/sh\n", 0o644), cause=FORBIDDEN),
        failure("a folder", [str(folder / "folder-server")], cause=FORBIDDEN + "|is a directory"),
        failure("a link to itself", [str(folder / "loop-server")], cause="ELOOP|too many (levels of )?symbolic links"),
        failure("an interpreter that is missing (`#!`)", at("nowhere-server", "#!/no/such/interpreter\n"), cause=MISSING),
        failure("the wrong processor", at("foreign-server", foreign), cause="exec format|cannot execute|syntax error|ENOEXEC|not found"),
        failure("an empty file", at("empty-server"), end=code(0) + "|ENOEXEC|exec format"),
        failure(
            "a token that is missing",
            script("token-server", "echo 'Error: EXAMPLE_TOKEN is not set' >&2; exit 1"),
            cause=TOKEN,
            end=code(1),
        ),
        failure(
            "a module that is missing (Python)",
            script("python-server", "echo 'ModuleNotFoundError: No module named some_server' >&2; exit 1"),
            cause="No module named some_server",
            end=code(1),
        ),
        failure(
            "a stack trace (Node)",
            script("node-server", f"cat >&2 <<'END'\nError: Cannot find package 'some-server'\n{node}\nEND\nexit 1"),
            cause="Cannot find package 'some-server'",
            end=code(1),
        ),
        failure("an exit without a word", script("quiet-server", "exit 3"), end=code(3)),
        failure(
            "usage on stdout",
            script("usage-server", "echo 'usage: usage-server --config FILE'; exit 2"),
            end=code(2),
        ),
        failure("an exit once it is greeted", script("greeted-server", "read -r first; exit 5"), end=code(5)),
        failure(
            "an exit after `initialize`",
            script("late-server", f"{python} 1 4"),
            cause=TOKEN,
            end=code(4),
        ),
        failure(
            "a signal, with a word",
            script("fault-server", "echo 'assertion failed: heap' >&2; kill -SEGV $$"),
            cause="assertion failed: heap",
            end=r"SIGSEGV|signal 11|code[^\n]{0,4}139",
        ),
        failure(
            "killed once it is greeted",
            script("killed-server", "read -r first; kill -KILL $$"),
            end=r"SIGKILL|signal 9|code[^\n]{0,4}137",
        ),
        failure("no JSON", script("text-server", "while read -r line; do echo 'hello there'; done"), cause="JSON|time"),
        failure("no answer", script("silent-server", "while read -r line; do :; done"), cause="time"),
        failure("a banner, then it works", script("banner-server", f"echo 'Welcome to the server!'\n{python}"), **works),
        failure(
            "400 KB on stderr, then it works",
            script("loud-server", f"head -c 400000 /dev/zero | tr '\\0' '\\n' >&2\n{python}"),
            **works,
        ),
        failure("all is well", script("good-server", python), **works),
    ]
