"""What each stdio client of an HTTP server does with cancels, a stream that breaks off, and the end of its input: one
scenario a function, each against a client and a server of its own."""

import json
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from client import INFO, LEGACY, META, MODERN
from contenders import HERE, Contender
from marks import Marks, until
from process import Program, environment
from sign_in import Person
from table import Cell

STARTUP = 30.0  # seconds for a program to start, or to answer what needs no work

COLUMNS = {
    "legacy_cancel": "legacy cancel",
    "modern_cancel": "modern cancel",
    "silent": "legacy cancel, no head sent",
    "legacy_cut": "legacy stream cut",
    "modern_cut": "modern stream cut",
    "legacy_end": "stdin closes, legacy",
    "modern_end": "stdin closes, modern",
}


HELLO = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}
INITIALIZE = {"id": "init", "method": "initialize", "params": HELLO}
INITIALIZED = {"method": "notifications/initialized"}


def cancel(ident: object) -> dict:
    return {"method": "notifications/cancelled", "params": {"requestId": ident, "reason": "the user gave up"}}


class Rejected(Exception):
    """The client did not let the scenario begin; what it said."""


class Bench:
    """A server that has just been started, a client of it, and this end of the client's pipes. By the stage, the server
    is stopped before the client is started (`connecting`), holds back its answer to the handshake, or wants a token
    (`sign_in`)."""

    def __init__(self, contender: Contender, patience: float, era: str, stage: str = "") -> None:
        self.patience = patience
        self.folder = tempfile.TemporaryDirectory(prefix="gateways-")
        folder = Path(self.folder.name)
        self.marks = Marks(folder / "marks")
        for name in ("server", "client", "remote"):
            (folder / name).mkdir(mode=0o700)
        more = {"handshake": {"HOLD": "1"}, "sign_in": {"SIGN_IN": "1"}}.get(stage, {})
        env = environment(folder, era, **more) | {"MCP_REMOTE_CONFIG_DIR": str(folder / "remote")}
        self.person = Person(folder)
        if stage == "sign_in":
            env |= self.person.environment(folder)
        self.programs: list[Program] = []
        self.messages: list[dict] = []
        self.is_over = False  # the client closed its output
        self._changed = threading.Condition()
        try:
            address = folder / "address"
            server = [sys.executable, "-I", "-S", str(HERE / "server.py"), str(address)]
            self.server = Program(server, folder / "server", env)
            self.programs.append(self.server)
            if not until(address.exists, STARTUP):
                raise Rejected(f"the server did not start: {self.server.words()[-400:]}")
            if stage == "connecting":
                self.server.process.send_signal(signal.SIGSTOP)
            self.client = Program(contender.command(address.read_text()), folder / "client", env, pipes=True)
            self.programs.insert(0, self.client)
        except BaseException:
            self.__exit__()
            raise
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.person.leave()
        for program in self.programs:
            program.end()
        self.folder.cleanup()

    def send(self, *messages: dict) -> None:
        """In one write."""
        lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
        try:
            self.client.process.stdin.write(lines.encode())
            self.client.process.stdin.flush()
        except OSError as error:
            raise Rejected(f"reads nothing: {error}") from error

    def answer(self, ident: object, patience: float) -> dict | None:
        return self.message(lambda message: "method" not in message and message.get("id") == ident, patience)

    def message(self, is_wanted: Callable[[dict], bool], patience: float) -> dict | None:
        """The first such message that the client has said, or says within this time."""

        def found() -> dict | None:
            return next(filter(is_wanted, self.messages), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self.is_over, patience)
            return found()

    def outcome(self, ident: object, patience: float) -> str:
        """In a word or two what the client answers within this time."""
        answer = self.answer(ident, patience)
        if answer is None:
            return "the client ends" if self.is_over else "never answered"
        if "error" in answer:
            return f"error {answer['error'].get('code')}"
        return "answered" + (" (isError)" if answer["result"].get("isError") else "")

    def initialize(self) -> None:
        self.send(INITIALIZE)
        if not (outcome := self.outcome("init", STARTUP)) == "answered":
            raise Rejected(f"initialize: {outcome}")
        self.send(INITIALIZED)

    def discover(self) -> None:
        self.send({"id": "discover", "method": "server/discover", "params": self._modern({})})
        answer = self.answer("discover", STARTUP)
        if not answer or MODERN not in (answer.get("result") or {}).get("supportedVersions", []):
            raise Rejected(f"server/discover: {self.outcome('discover', 0)}")

    def call(self, ident: object, tool: str, work: str, modern: bool = False) -> dict:
        """Calls a tool, and waits for its work to start."""
        self.send(self.request(ident, tool, work, modern))
        until(lambda: self.marks.found("started", work=work) or self.answer(ident, 0) or self.is_over, STARTUP)
        started = self.marks.found("started", work=work)
        if not started:
            raise Rejected(f"{tool}: {self.outcome(ident, 0)}")
        return started

    def request(self, ident: object, tool: str, work: str, modern: bool) -> dict:
        """A call that asks for progress if its tool reports any."""
        params = {"name": tool, "arguments": {"text" if tool == "echo" else "work": work}}
        if tool == "reports":
            params["_meta"] = {"progressToken": "token"}
        return {"id": ident, "method": "tools/call", "params": self._modern(params) if modern else params}

    def cancel(self, ident: object) -> None:
        self.send(cancel(ident))

    def stopped(self, work: str) -> bool:
        return bool(self.marks.wait("stopped", self.patience, work=work))

    def posts_cancel(self) -> dict | None:
        return self.marks.found("post", method="notifications/cancelled")

    def _modern(self, params: dict) -> dict:
        meta = {f"{META}protocolVersion": MODERN, f"{META}clientInfo": INFO, f"{META}clientCapabilities": {}}
        return {**params, "_meta": {**meta, **params.get("_meta", {})}}

    def _read(self) -> None:
        for line in self.client.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                with self._changed:
                    self.messages.append(message)
                    self._changed.notify_all()
        with self._changed:
            self.is_over = True
            self._changed.notify_all()


def legacy_cancel(bench: Bench) -> dict[str, Cell]:
    """The ids go down, so that a client that counts its own requests gives the first call the second one's."""
    bench.initialize()
    bench.call(7, "hang", "seven")
    bench.call(1, "hang", "one")
    bench.cancel(1)
    own = bench.stopped("one")
    other = bench.stopped("seven")
    return {"legacy_cancel": cancelled(bench, 1, own, other)}


def cancelled(bench: Bench, ident: object, own: bool, other: bool) -> Cell:
    """What a legacy cancel came to; it is not answered (MCP-C06)."""
    sent = bench.posts_cancel()
    outcome = bench.outcome(ident, 0)
    if own and not other:
        text = "right"
    elif other:
        text = "stops both" if own else "stops the other call"
    elif sent:
        text = "sent, but the work runs on"
    else:
        text = "never sent: the work runs on"
    right = text == "right" and outcome == "never answered"
    if outcome != "never answered":
        text = f"{text}; {outcome}"
    return Cell(text, right, {"sent": sent and sent["params"], "own": own, "other": other, "answer": outcome})


def modern_cancel(bench: Bench) -> dict[str, Cell]:
    """On stdio a notification (MCP-S01), on HTTP the end of the stream (MCP-H03), and no notification (MCP-H05)."""
    bench.discover()
    started = bench.call(7, "hang", "seven", modern=True)
    bench.call(1, "hang", "one", modern=True)
    bench.cancel(1)
    own = bench.stopped("one")
    other = bench.stopped("seven")
    if not started["modern"]:
        cell = cancelled(bench, 1, own, other)
        return {"modern_cancel": Cell(f"downgrades; {cell.text}", False, cell.seen)}
    sent, outcome = bench.posts_cancel(), bench.outcome(1, 0)
    closed = bool(bench.marks.found("closed", work="one"))
    if own and not other:
        text = "right" if not sent else "right, and POSTs the notification"
    else:
        text = "stops the other call" if other and not own else "stops both" if other else "the work runs on"
        text = f"POSTs the notification: {text}" if sent else text
    right = text == "right" and outcome == "never answered"
    if outcome != "never answered":
        text = f"{text}; {outcome}"
    seen = {"sent": sent and sent["params"], "closed": closed, "own": own, "other": other, "answer": outcome}
    return {"modern_cancel": Cell(text, right, seen)}


def cancel_of_a_silent_call(bench: Bench) -> dict[str, Cell]:
    """The server has not even begun to respond."""
    bench.initialize()
    bench.call(7, "mute", "silent")
    bench.cancel(7)
    return {"silent": cancelled(bench, 7, bench.stopped("silent"), False)}


def cut(bench: Bench, modern: bool) -> dict[str, Cell]:
    """The stream of a call breaks off with nothing to resume it by. The caller has to be told, or the call made again
    (MCP-H06)."""
    bench.discover() if modern else bench.initialize()
    bench.call(1, "cut", "cut", modern=modern)
    outcome = bench.outcome(1, bench.patience)
    calls = bench.marks.count("started", work="cut")
    text = outcome if calls == 1 else f"{calls} calls; {outcome}"
    right = outcome.startswith("error") or calls > 1
    seen = {"calls": calls, "gets": bench.marks.count("get")}
    return {"modern_cut" if modern else "legacy_cut": Cell(text, right, seen)}


def end_of_input(bench: Bench, modern: bool) -> dict[str, Cell]:
    """The user's program is gone: its call is cancelled in the way of its era, and the client ends."""
    bench.discover() if modern else bench.initialize()
    bench.call(1, "hang", "left", modern=modern)
    bench.client.process.stdin.close()
    stopped = bench.stopped("left")
    ended = until(lambda: not bench.client.is_running(), bench.patience)
    how = [
        word
        for word, mark in (
            ("cancels", bench.posts_cancel()),
            ("DELETE", bench.marks.found("delete")),
            ("hangs up", bench.marks.found("closed", work="left")),
        )
        if mark
    ]
    text = ", ".join([*how, "the work stops" if stopped else "the work runs on"])
    if not ended:
        text += "; never ends"
    code = bench.client.process.returncode
    seen = {"exit": code, "how": how, "stopped": stopped, "modern": bench.marks.found("started", work="left")["modern"]}
    return {"modern_end" if modern else "legacy_end": Cell(text, stopped and bool(ended), seen)}


Scenario = Callable[[Bench], dict[str, Cell]]
SCENARIOS: list[tuple[Scenario, list[str]]] = [
    (legacy_cancel, ["legacy_cancel"]),
    (modern_cancel, ["modern_cancel"]),
    (cancel_of_a_silent_call, ["silent"]),
    (lambda bench: cut(bench, False), ["legacy_cut"]),
    (lambda bench: cut(bench, True), ["modern_cut"]),
    (lambda bench: end_of_input(bench, False), ["legacy_end"]),
    (lambda bench: end_of_input(bench, True), ["modern_end"]),
]


def measure(contender: Contender, patience: float, era: str) -> dict[str, Cell]:
    """Every scenario; one that could not be played is a cell that says so."""
    cells: dict[str, Cell] = {}
    for scenario, keys in SCENARIOS:
        try:
            with Bench(contender, patience, era) as bench:
                cells |= scenario(bench)
        except (Rejected, OSError) as failure:
            # A user of the other era than the server's: no client has to serve them.
            bridges = era == ("legacy" if keys[0].startswith("modern") else "modern")
            cells |= {key: Cell(str(failure), None if bridges else False) for key in keys}
    return cells
