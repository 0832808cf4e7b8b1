"""Marks: what the work itself says happened, one JSON line each, in the file named by RESCIND_MARKS."""

import json
import os

_FILE = os.environ.get("RESCIND_MARKS")


def mark(work: str, event: str, **fields: object) -> None:
    """Appends one mark; the pid lets a client kill the server that does the work, whatever stands between."""
    if _FILE:
        with open(_FILE, "a", encoding="utf-8") as file:
            file.write(json.dumps({"work": work, "event": event, "pid": os.getpid(), **fields}) + "\n")


def marks() -> list[dict]:
    """Every whole line written so far."""
    try:
        with open(_FILE, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return []
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def marked(work: str, event: str) -> dict | None:
    """The first mark of `event` by `work`, if it is there."""
    return next((line for line in marks() if line["work"] == work and line["event"] == event), None)
