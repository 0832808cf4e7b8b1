"""Programs under test: started in a group of their own, ended one by one with all that they started."""

import os
import re
import signal
import subprocess
from pathlib import Path

from marks import until

PATIENCE = 5.0  # seconds to end after SIGTERM


class Alive:
    """A process by its pid and the time of its start, so that a pid used again is not taken for it (Linux)."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.started = self._stat()

    def _stat(self) -> str | None:
        """The time of its start; None if it has ended, be it reaped or not."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return None
        state, *fields = stat[stat.rindex(")") + 2 :].split()
        return None if state in "ZX" else fields[18]

    def __bool__(self) -> bool:
        return self.started is not None and self._stat() == self.started

    def end(self) -> None:
        if self:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def descendants(pid: int) -> list[Alive]:
    """The processes below `pid`, but not itself."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text()
        except OSError:
            continue
        parents.setdefault(int(stat[stat.rindex(")") + 2 :].split()[1]), []).append(int(path.parent.name))
    below, found = [pid], []
    while below:
        children = parents.get(below.pop(), [])
        found += children
        below += children
    return [Alive(child) for child in found]


def environment(folder: Path, era: str, **more: str) -> dict[str, str]:
    """For a program and what it starts: marks and all else of Rescind's in `folder`, and no proxy on the loopback."""
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700)
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    ours = {"MARKS": str(folder / "marks"), "ERA": era, "RUNTIME_DIR": str(runtime), **more}
    return env | {f"RESCIND_{name}": value for name, value in ours.items()}


class Program:
    """A running program, whose words go to files in `folder`."""

    def __init__(self, command: list[str], folder: Path, env: dict[str, str], pipes: bool = False) -> None:
        self.said = folder / "said"
        with self.said.open("ab") as said:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else said,
                stderr=said,
                start_new_session=True,
            )
        self.below: list[Alive] = []

    def words(self) -> str:
        return self.said.read_text(encoding="utf-8", errors="replace")

    def says(self, pattern: str) -> re.Match | None:
        return re.search(pattern, self.words())

    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and nothing to what it started."""
        self.below += descendants(self.process.pid)
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """SIGTERM, SIGKILL, and then whatever it left behind."""
        if self.is_running():
            self.below += descendants(self.process.pid)
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
        for child in self.below:
            child.end()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                if pipe:
                    pipe.close()
            except OSError:
                pass


def wait_for_end(children: list[Alive], patience: float) -> list[Alive]:
    """Those that are left after `patience` seconds."""
    until(lambda: not any(children), patience)
    return [child for child in children if child]
