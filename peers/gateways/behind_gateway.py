"""What each gateway does with cancels and hang-ups: one scenario a function, each against a gateway of its own."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from client import Client, Exchange, Legacy, Modern, outcome
from contenders import Contender, NotStarted
from marks import Marks, until
from process import Alive, environment, wait_for_end
from table import Cell

STARTUP = 60.0  # seconds for a gateway to listen, or to answer what needs no work

COLUMNS = {
    "work": "A: the work",
    "stream": "A: the call's stream",
    "hang_up": "B (must run on)",
    "back": "B: comes back",
    "sessions": "C: two sessions, one id",
    "twice": "C2: one session, one id twice",
    "modern": "D (must cancel)",
    "delete": "E: DELETE",
    "orphans": "F: left after SIGKILL",
    "busy_orphans": "F: left, busy servers",
    "processes": "processes",
}


class Rejected(Exception):
    """The gateway did not let the scenario begin; what it said."""


class Bench:
    """A gateway that has just been started, with a folder and a file of marks of its own."""

    def __init__(self, contender: Contender, patience: float, era: str, busy: bool = False) -> None:
        self.contender = contender
        self.patience = patience
        self.era = era
        self.folder = tempfile.TemporaryDirectory(prefix="gateways-")
        folder = Path(self.folder.name)
        self.marks = Marks(folder / "marks")
        more = {"BUSY": "1"} if busy else {}
        env = environment(folder, era, ADDRESS=str(folder / "address"), **more)
        self.clients: list[Client] = []
        try:
            self.program, self.url = contender.start(folder, env, STARTUP)
        except BaseException:
            self.folder.cleanup()
            raise

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.program.below += [Alive(pid) for pid in self.marks.pids()]
        for client in self.clients:
            client.hang_up()
        self.program.end()
        self.folder.cleanup()

    def legacy(self) -> Legacy:
        """A client after its handshake."""
        client = Legacy(self.url, self.contender.prefix)
        self.clients.append(client)
        if failed := client.initialize(STARTUP):
            raise Rejected(failed)
        return client

    def modern(self) -> Modern:
        client = Modern(self.url, self.contender.prefix)
        self.clients.append(client)
        return client

    def started(self, exchange: Exchange, work: str) -> dict:
        """Waits until the work of a call has started."""
        until(lambda: self.marks.found("started", work=work) or exchange.end, STARTUP)
        mark = self.marks.wait("started", 0.5 if exchange.end else 0, work=work)
        if not mark:
            raise Rejected(outcome(exchange))
        return mark

    def fate(self, work: str) -> str | None:
        """What became of work that never ends by itself: `stopped`, `killed`, None is nothing so far."""
        started = self.marks.found("started", work=work)
        # Looked at before `stopped`, which its process may mark just before its end.
        ended = started and (self.marks.found("ended", pid=started["pid"]) or not Alive(started["pid"]))
        if self.marks.found("stopped", work=work):
            return "stopped"
        return "killed" if ended else None

    def await_fate(self, work: str) -> str | None:
        return until(lambda: self.fate(work), self.patience)

    def lost(self) -> str:
        """Why work runs on that was cancelled: a child was told and could not know what was meant, or none was told."""
        return "lost" if self.marks.cancels() else "child never told"


def cancel_in_session(bench: Bench) -> dict[str, Cell]:
    """A: a call, then its cancel by POST (MCP-H02). The stream has to end without a response (MCP-C06)."""
    client = bench.legacy()
    call = client.call(1, "slow", "A")
    bench.started(call, "A")
    cancel = client.cancel(1)
    cancel.wait(STARTUP)
    fate = bench.await_fate("A")
    end = call.wait(bench.patience)
    accepted = cancel.status == 202 and not cancel.messages
    seen = {"status": cancel.status, "fate": fate, "cancels at the child": bench.marks.cancels()}
    text = {"stopped": "stopped", "killed": "child killed", None: bench.lost()}[fate]
    if not accepted or fate is None:
        text = f"{cancel.status}, {text}"
    work = Cell(text, fate == "stopped" and accepted, seen)
    ends = end == "whole" and not call.messages and call.status == 200
    if fate is None and end is None:
        bench.marks.release("A")
        call.wait(bench.patience)
    seen = {"end": end, "status": call.status, "messages": call.messages}
    return {"work": work, "stream": Cell(outcome(call), ends, seen)}


def hang_up_in_session(bench: Bench) -> dict[str, Cell]:
    """B: every socket of a client closes with a call in flight, which is no cancel (MCP-H01)."""
    client = bench.legacy()
    stream = client.listen()
    call = client.call(1, "slow", "B", progress=True)
    bench.started(call, "B")
    event_id = call.event_id(bench.patience)
    call.hang_up()
    stream.hang_up()
    fate = bench.await_fate("B")
    seen = {"fate": fate, "event id": event_id}
    if fate:
        text = {"stopped": "cancels", "killed": "child killed"}[fate]
        return {"hang_up": Cell(text, False, seen), "back": Cell("–", None)}
    bench.marks.release("B")
    finished = bench.marks.wait("finished", bench.patience, work="B")
    cells = {"hang_up": Cell("runs on" if finished else "neither stops nor ends", bool(finished), seen)}
    # An id of an event is a promise that what follows it can be had.
    cells["back"] = Cell("no event id", None)
    if event_id is not None:
        again = client.listen(event_id)
        answer = again.answer(bench.patience)
        came = bool(answer and answer.get("id") == 1 and outcome(again) == "answered B")
        seen = {"status": again.status, "messages": again.messages, "end": again.end}
        cells["back"] = Cell("yes" if came else f"no: {outcome(again)}", came, seen)
    return cells


def cancel_in_one_of_two_sessions(bench: Bench) -> dict[str, Cell]:
    """C: both use id 5; one cancels."""
    one, two = bench.legacy(), bench.legacy()
    bench.started(one.call(5, "hang", "one"), "one")
    bench.started(two.call(5, "hang", "two"), "two")
    cancel = two.cancel(5)
    cancel.wait(STARTUP)
    other = bench.await_fate("one")
    own = bench.fate("two")
    seen = {"status": cancel.status, "own": own, "other": other, "cancels at the child": bench.marks.cancels()}
    text = {
        ("stopped", None): "right",
        (None, None): bench.lost(),
        (None, "stopped"): "stops the other's",
        ("stopped", "stopped"): "stops both",
    }.get((own, other), f"own: {own or 'runs on'}, other's: {other or 'runs on'}")
    return {"sessions": Cell(text, text == "right", seen)}


def one_id_twice(bench: Bench) -> dict[str, Cell]:
    """C2: two calls in flight with one id, which no client may do (MCP-I02): each gets its own answer, or the second
    is rejected."""
    client = bench.legacy()
    one = client.call(1, "slow", "one")
    bench.started(one, "one")
    two = client.call(1, "slow", "two")
    until(lambda: bench.marks.found("started", work="two") or two.end, bench.patience)
    bench.marks.release("two")
    two.wait(bench.patience)
    bench.marks.release("one")
    one.wait(bench.patience)
    outcomes = [outcome(one), outcome(two)]
    rejected = two.status is not None and (two.status >= 400 or "error" in outcomes[1])
    if outcomes == ["answered one", "answered two"]:
        cell = Cell("own answers", True)
    elif outcomes[0] == "answered one" and rejected:
        cell = Cell(f"second rejected: {outcomes[1]}", True)
    else:
        cell = Cell(f"first: {outcomes[0]}, second: {outcomes[1]}", False)
    cell.seen = {"first": one.messages, "second": two.messages}
    return {"twice": cell}


def modern_hang_up(bench: Bench) -> dict[str, Cell]:
    """D: closing the stream is the cancel (MCP-H03); the process is not part of it (MCP-S03)."""
    client = bench.modern()
    call = client.call(1, "hang", "D")
    started = bench.started(call, "D")
    call.hang_up()
    fate = bench.await_fate("D")
    echo = client.call(2, "echo", "still")
    echo.answer(STARTUP)
    same = outcome(echo) == f"answered still {started['pid']}"
    killed = bool(bench.marks.found("ended", pid=started["pid"])) or not Alive(started["pid"])
    seen = {"fate": fate, "same process": same, "ended": killed, "echo": outcome(echo)}
    if fate == "killed" or killed:
        text = "child killed"
    elif fate is None:
        text = "runs on"
    else:
        text = "right" if same else "stopped, then another child"
    return {"modern": Cell(text, text == "right", seen)}


def delete_session(bench: Bench) -> dict[str, Cell]:
    """E: a session ends with a call in flight; nobody waits for its work any more."""
    client = bench.legacy()
    if not client.session:
        return {"delete": Cell("no sessions", None)}
    bench.started(client.call(1, "hang", "E"), "E")
    delete = client.delete()
    delete.wait(STARTUP)
    fate = bench.await_fate("E")
    text = {"stopped": "stopped", "killed": "process ended", None: f"{delete.status}, runs on"}[fate]
    return {"delete": Cell(text, fate is not None, {"status": delete.status, "fate": fate})}


def kill_the_gateway(bench: Bench) -> dict[str, Cell]:
    """F: the gateway is gone with calls in flight, two each of two legacy sessions and of a modern client. Which
    processes served them, and which are left."""
    sessions = [bench.legacy(), bench.legacy()]
    legacy, modern = [], []
    for number, client in enumerate(sessions):
        for ident in (1, 2):
            work = f"session {number} call {ident}"
            legacy.append(bench.started(client.call(ident, "hang", work), work)["pid"])
    client, rejected = bench.modern(), None
    try:
        for ident in (1, 2):
            work = f"modern call {ident}"
            modern.append(bench.started(client.call(ident, "hang", work), work)["pid"])
    except Rejected as refusal:
        rejected = str(refusal)
    cells = {"processes": processes(legacy, modern, len(sessions), bench.era)}
    cells["processes"].seen["rejected"] = rejected
    children = [child for child in map(Alive, bench.marks.pids()) if child]
    bench.program.kill()
    left = wait_for_end(children, bench.patience)
    for child in left:
        child.end()
    seen = {"before": len(children), "left": len(left)}
    return cells | {"orphans": Cell(f"{len(left)} of {len(children)}", not left, seen)}


def processes(legacy: list[int], modern: list[int], sessions: int, era: str) -> Cell:
    """How many served the calls; one for each request is too many."""
    counts = {1: "one shared", sessions: "one a session", len(legacy): "one a request"}
    text = counts.get(len(set(legacy)), f"{len(set(legacy))} for {len(legacy)} calls")
    right = len(set(legacy)) <= sessions
    if not modern:
        text, right = f"{text}; modern: rejected", right and era == "legacy"
    elif len(set(modern)) > 1:
        text, right = f"{text}; modern: one a request", False
    elif not set(modern) & set(legacy):
        text += "; modern: one"
    return Cell(text, right, {"legacy": legacy, "modern": modern})


def kill_the_gateway_of_busy_children(bench: Bench) -> dict[str, Cell]:
    """F again, where the server lets its work end before it ends: the end of its input does not end it."""
    return {"busy_orphans": kill_the_gateway(bench)["orphans"]}


Scenario = Callable[[Bench], dict[str, Cell]]
SCENARIOS: list[tuple[Scenario, list[str]]] = [
    (cancel_in_session, ["work", "stream"]),
    (hang_up_in_session, ["hang_up", "back"]),
    (cancel_in_one_of_two_sessions, ["sessions"]),
    (one_id_twice, ["twice"]),
    (modern_hang_up, ["modern"]),
    (delete_session, ["delete"]),
    (kill_the_gateway, ["orphans", "processes"]),
    (kill_the_gateway_of_busy_children, ["busy_orphans"]),
]


def measure(contender: Contender, patience: float, era: str) -> dict[str, Cell]:
    """Every scenario; one that could not be played is a cell that says so."""
    cells: dict[str, Cell] = {}
    for scenario, keys in SCENARIOS:
        try:
            busy = scenario is kill_the_gateway_of_busy_children
            with Bench(contender, patience, era, busy) as bench:
                cells |= scenario(bench)
        except (Rejected, NotStarted, OSError) as failure:
            seen = {"said": failure.words} if isinstance(failure, NotStarted) else {}
            # A client of the other era than the server's: no gateway has to serve it.
            bridges = era == ("legacy" if scenario is modern_hang_up else "modern")
            cells |= {key: Cell(str(failure), None if bridges else False, seen) for key in keys}
    return cells
