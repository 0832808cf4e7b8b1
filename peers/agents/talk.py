"""One end of a program that speaks JSON-RPC in lines on its stdin and stdout."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from marks import until
from process import Program

STARTUP = 60.0  # seconds for a program to begin, and to answer what begins a session


class Talk:
    """A program and what it has said. `asked` is called with each of its requests, on a thread of its own."""

    def __init__(self, command: list[str], folder: Path, env: dict[str, str], asked: Callable[[dict], None]) -> None:
        self.said: list[dict] = []
        self.sent: list[dict] = []
        self._asked = asked
        self._last = 0
        self._writing = threading.Lock()
        self.program = Program(command, folder, env, pipes=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.program.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            self.said.append(message)
            if "method" in message and "id" in message:
                self._asked(message)

    def send(self, message: dict) -> None:
        """Nothing reaches a program that has ended."""
        data = json.dumps(message).encode() + b"\n"
        with self._writing:
            self.sent.append(message)
            try:
                self.program.process.stdin.write(data)
                self.program.process.stdin.flush()
            except (OSError, ValueError):
                pass

    def request(self, method: str, params: dict, **more: str) -> int:
        """Its id; `answer` waits."""
        self._last += 1
        self.send({**more, "id": self._last, "method": method, "params": params})
        return self._last

    def answer(self, request: int, patience: float = STARTUP) -> dict | None:
        def found() -> dict | None:
            return next((one for one in list(self.said) if one.get("id") == request and "method" not in one), None)

        return until(found, patience)

    def result(self, method: str, params: dict, **more: str) -> dict:
        """Its result, which has to come."""
        answer = self.answer(self.request(method, params, **more))
        if answer is None or "result" not in answer:
            raise RuntimeError(f"{method}: {answer or 'no answer'}; {self.program.words()[-2000:]}")
        return answer["result"]

    def found(self, method: str, matches: Callable[[dict], bool] = lambda params: True) -> dict | None:
        """The first request or notification of the program with this method."""
        says = (one for one in list(self.said) if one.get("method") == method)
        return next((one for one in says if matches(one.get("params") or {})), None)

    def close(self, trace: Path | None) -> None:
        if trace:
            lines = [f"> {json.dumps(one)}" for one in self.sent] + [f"< {json.dumps(one)}" for one in self.said]
            trace.write_text("\n".join(lines) + os.linesep)
        self.program.end()
