"""What is played with a program, and what of its work is alive afterwards, as the work's own marks and processes say."""

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from marks import until
from model import Model
from process import Alive, environment, wait_for_end
from programs import Led
from talk import STARTUP

BEFORE = 2.0  # seconds between the beginning of the work and the stop of a person who has seen enough
AFTER = 5.0  # seconds after a stop, or a kill
GROWTH = 1.0  # seconds in which work that lives leaves a mark


@dataclass
class Scene:
    title: str
    prompt: str
    # The names of its work, with how each is told of in a cell.
    work: dict[str, str]
    # The stop comes while a card is shown; "Allow" is pressed after it.
    late_card: bool = False


AGENTS = {"one": "agent", "two": "agent"}
SCENES = {
    "command": Scene("a command of the turn", "steps(shell own)", {"own": "command"}),
    "children": Scene(
        "two background agents and a command of the turn",
        "steps(agent one, agent two, shell own)",
        {**AGENTS, "own": "command"},
    ),
    # By then some programs have ended the turn, and others wait for its agents.
    "background": Scene("two background agents alone", "steps(agent one, agent two)", AGENTS),
    "card": Scene("a card; Allow is pressed after the stop", "steps(ask own)", {"own": "command"}, late_card=True),
}

# By the key of its column: whether it runs behind the shim, and who stops it.
STOPS = {"direct": (False, "client"), "shim": (True, "client"), "rescind": (True, "operator")}


@dataclass
class Seen:
    """One play of a scene."""

    # How many works of a kind live after the stop.
    alive: dict[str, int] = field(default_factory=dict)
    # The same, and other processes of the program, after it was killed; None if it was not.
    orphans: dict[str, int] | None = None
    # What `rescind stop` printed, and its exit code: 0 claims that all of it is over.
    words: str = ""
    code: int | None = None
    # What went wrong with the play itself.
    failed: str | None = None

    def is_true(self) -> bool:
        """Whether nothing was claimed that the work denies."""
        return self.code != 0 or not self.alive


class Works:
    """The work of a scene, in one folder."""

    def __init__(self, folder: Path, names: dict[str, str]) -> None:
        self.folder = folder
        self.names = names
        self.processes: dict[str, Alive] = {}

    def has_begun(self, name: str) -> bool:
        pid = self.folder / f"{name}.pid"
        if name not in self.processes and pid.exists() and (text := pid.read_text().strip()):
            self.processes[name] = Alive(int(text))
        return name in self.processes and self._size(name) > 0

    def all_have_begun(self) -> bool:
        return all([self.has_begun(name) for name in self.names])

    def _size(self, name: str) -> int:
        try:
            return (self.folder / name).stat().st_size
        except FileNotFoundError:
            return 0

    def living(self) -> dict[str, int]:
        """How many of each kind live after `AFTER`: they have a process, and leave marks."""
        until(lambda: self.all_have_begun() and not any(self.processes.values()), AFTER)
        before = {name: self._size(name) for name in self.names}
        if any([self.has_begun(name) for name in self.names]):
            time.sleep(GROWTH)
        living: dict[str, int] = {}
        for name, kind in self.names.items():
            if self._size(name) > before[name] or (self.has_begun(name) and self.processes[name]):
                living[kind] = living.get(kind, 0) + 1
        return living

    def end(self) -> None:
        for name in self.names:
            self.has_begun(name)
        for process in self.processes.values():
            process.end()


def play(led: type[Led], scene: Scene, rescind: Path, flags: list[str], stop: str, folder: Path) -> Seen:
    """Plays it once, in an empty folder of its own; what was said on the wire is left there."""
    is_behind, who = STOPS[stop]
    before = [str(rescind), "run", *flags, "--"] if is_behind else []
    env = environment(folder, "both")
    marks = folder / "work"
    marks.mkdir()
    works = Works(marks, scene.work)
    model = Model(marks)
    seen = Seen()
    program = None
    try:
        program = led(before, folder, env, model, scene.late_card)
        program.prompt(scene.prompt)
        begun = (lambda: program.cards) if scene.late_card else works.all_have_begun
        if not until(begun, STARTUP):
            seen.failed = f"did not begin: {program.talk.program.words()[-500:]}"
            return seen
        time.sleep(BEFORE)
        if who == "operator":
            operator_stops(rescind, folder, env, seen)
        else:
            program.stop()
            # As after `rescind stop`, which returns once nothing more is learnt.
            until(program.has_ended, AFTER)
        if scene.late_card:
            time.sleep(GROWTH)
            program.allow(program.cards[0])
        seen.alive = works.living()
        program.talk.program.kill()
        seen.orphans = works.living() | _others(program.talk.program.below, works)
    except RuntimeError as error:
        seen.failed = str(error)
    finally:
        if program:
            program.talk.close(folder / "trace")
        works.end()
        model.close()
    return seen


def _others(left: list[Alive], works: Works) -> dict[str, int]:
    """The processes that are left beside those of the work."""
    ours = {process.pid for process in works.processes.values()}
    # What the work itself waits for ends within a tick.
    others = wait_for_end([process for process in left if process.pid not in ours], GROWTH)
    return {"process": len(others)} if others else {}


def operator_stops(rescind: Path, folder: Path, env: dict[str, str], seen: Seen) -> None:
    """Does `rescind stop`, as a person types it."""
    command = [str(rescind), "stop"]
    stopped = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seen.words = (stopped.stdout + stopped.stderr).strip()
    seen.code = stopped.returncode
