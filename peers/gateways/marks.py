"""What the work behind a gateway says of itself: the JSON lines that `child.py` and `server.py` append to one file."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

TICK = 0.01  # seconds between two looks at a file

Found = TypeVar("Found")


def until(look: Callable[[], Found], patience: float) -> Found:
    """The first thing that `look` finds, or what it says last: nothing within `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        found = look()
        if found or time.monotonic() >= deadline:
            return found
        time.sleep(TICK)


class Marks:
    """One file of marks; work named W is released by a file beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[dict]:
        """Every whole line written so far."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def found(self, event: str, **fields: object) -> dict | None:
        """The first mark of `event` with these fields."""
        return next(self._found(event, fields), None)

    def wait(self, event: str, patience: float, **fields: object) -> dict | None:
        return until(lambda: self.found(event, **fields), patience)

    def _found(self, event: str, fields: dict) -> Iterator[dict]:
        for line in self.lines():
            if line["event"] == event and all(line.get(name) == value for name, value in fields.items()):
                yield line

    def count(self, event: str, **fields: object) -> int:
        return sum(1 for _ in self._found(event, fields))

    def pids(self) -> list[int]:
        """The processes that ever wrote here, the oldest first."""
        return list(dict.fromkeys(line["pid"] for line in self.lines()))

    def cancels(self) -> list[object]:
        """The ids of every cancel that a child was sent, whatever it did with it."""
        frames = [line.get("frame") for line in self.lines() if line["event"] == "frame"]
        messages = [frame for frame in frames if isinstance(frame, dict)]
        cancels = [message for message in messages if message.get("method") == "notifications/cancelled"]
        return [(message.get("params") or {}).get("requestId") for message in cancels]

    def release(self, work: str) -> None:
        """Lets `slow` work finish."""
        self.path.with_name(f"{self.path.name}.{work}").touch()
