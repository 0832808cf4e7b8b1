"""What each stdio client of an HTTP server does with a cancel at each stage of a call, in either era: one stage a function,
each against a client and a server of its own."""

import signal
from collections.abc import Callable

from before_server import INITIALIZE, INITIALIZED, STARTUP, Bench, Rejected
from contenders import Contender, accepts
from marks import until
from sign_in import callback_port
from table import Cell

COLUMNS = {
    "connecting": "while connecting",
    "handshake": "before the session is open",
    "sign_in": "during sign-in",
    "in_flight": "in flight",
    "progress": "after the first progress",
    "answer": "its answer is on its way",
    "closed": "stdin closes",
    "sign_in_closed": "stdin closes during sign-in",
    "killed": "the client is killed",
}


class NoSignIn(Exception):
    """The client leaves that to somebody else."""


def open_session(bench: Bench, modern: bool) -> None:
    bench.discover() if modern else bench.initialize()


def goes_on(bench: Bench, modern: bool) -> bool:
    """Whether the next call is answered."""
    bench.send(bench.request("next", "echo", "next", modern))
    return bench.outcome("next", STARTUP) == "answered"


def ask_early(bench: Bench, modern: bool) -> None:
    """A call, written behind the handshake, which is not answered yet."""
    call = bench.request(1, "hang", "early", modern)
    bench.send(*([] if modern else [INITIALIZE, INITIALIZED]), call)


def early(bench: Bench, modern: bool, let_go: Callable[[], None]) -> Cell:
    """An early call and its cancel. Then the server goes on."""
    ask_early(bench, modern)
    bench.cancel(1)
    return ends_early(bench, modern, let_go)


def ends_early(bench: Bench, modern: bool, let_go: Callable[[], None]) -> Cell:
    let_go()
    if not modern and bench.outcome("init", STARTUP) != "answered":
        raise Rejected(f"initialize: {bench.outcome('init', 0)}")
    went_on = goes_on(bench, modern)
    started = bench.marks.found("started", work="early")
    stopped = bool(started) and bench.stopped("early")
    text = "never asks" if not started else "the work stops" if stopped else "the work runs on"
    return judged(bench, text, not started or stopped, went_on)


def judged(bench: Bench, text: str, right: bool, went_on: bool = True) -> Cell:
    """With what else may be wrong: no cancelled call is answered (MCP-C06), and its client is of use afterwards."""
    outcome = bench.outcome(1, 0)
    wrongs = [] if outcome == "never answered" else [outcome]
    wrongs += [] if went_on else ["the next call is not answered"]
    return Cell("; ".join([text, *wrongs]), right and not wrongs, {"answer": outcome})


def connecting(bench: Bench, modern: bool) -> Cell:
    """The server's machine takes the connection, and the server, which is stopped, reads nothing of it."""
    return early(bench, modern, lambda: bench.server.process.send_signal(signal.SIGCONT))


def before_the_session(bench: Bench, modern: bool) -> Cell:
    """The server has read the handshake, and does not answer. A client of 2026-07-28 has none, its own client may."""
    return early(bench, modern, lambda: bench.marks.release("handshake"))


def signing_in(bench: Bench, modern: bool) -> Cell:
    """The server wants a sign-in, and the browser has opened. The cancel comes, and then the person signs in."""
    ask_early(bench, modern)
    port = invited(bench)
    bench.cancel(1)
    # In a session the handshake still waits for the person.
    is_over = until(lambda: not accepts(port), bench.patience) if modern else not accepts(port)
    cell = ends_early(bench, modern, bench.person.come_back)
    cell.text += "; the sign-in ends" if is_over else "; the sign-in waits on"
    return cell


def invited(bench: Bench) -> int:
    """Waits until the browser was opened; the port that it is to come back to, once somebody listens there."""
    link = bench.person.invited(STARTUP)
    port = link and callback_port(link)
    if not port or not until(lambda: accepts(port), STARTUP):
        raise NoSignIn("no sign-in")
    return port


def input_ends_while_signing_in(bench: Bench, modern: bool) -> Cell:
    """Whoever started the client is gone, and nobody signs in."""
    ask_early(bench, modern)
    invited(bench)
    bench.client.process.stdin.close()
    ended = until(lambda: not bench.client.is_running(), bench.patience)
    return Cell("ends" if ended else "never ends", bool(ended))


def in_flight(bench: Bench, modern: bool) -> Cell:
    open_session(bench, modern)
    bench.call(1, "hang", "one", modern)
    bench.cancel(1)
    stopped = bench.stopped("one")
    return judged(bench, "the work stops" if stopped else "the work runs on", stopped)


def after_progress(bench: Bench, modern: bool) -> Cell:
    """The cancel is sent when progress was seen."""
    open_session(bench, modern)
    bench.call(1, "reports", "one", modern)
    seen = bench.message(lambda message: message.get("method") == "notifications/progress", bench.patience)
    bench.cancel(1)
    stopped = bench.stopped("one")
    text = "the work stops" if stopped else "the work runs on"
    return judged(bench, text if seen else f"{text}; no progress passes", stopped and bool(seen))


def on_its_way(bench: Bench, modern: bool) -> Cell:
    """Half of the answer has been sent. The caller may get it, once, or nothing."""
    open_session(bench, modern)
    bench.call(1, "half", "one", modern)
    bench.marks.wait("half", STARTUP, work="one")
    bench.cancel(1)
    # What it makes of the cancel can be seen, unless that is nothing.
    until(lambda: bench.posts_cancel() or bench.marks.found("closed", work="one"), 0.3)
    bench.marks.release("one")
    bench.marks.wait("answered", STARTUP, work="one")
    went_on = goes_on(bench, modern)
    answers = [message for message in bench.messages if "method" not in message and message.get("id") == 1]
    text = {0: "dropped", 1: bench.outcome(1, 0)}.get(len(answers), f"{len(answers)} answers")
    right = went_on and len(answers) <= 1
    return Cell(text if went_on else f"{text}; the next call is not answered", right, {"answers": answers})


def input_ends(bench: Bench, modern: bool) -> Cell:
    """Whoever started the client is gone, with a call in flight."""
    open_session(bench, modern)
    bench.call(1, "hang", "left", modern)
    bench.client.process.stdin.close()
    stopped = bench.stopped("left")
    ended = until(lambda: not bench.client.is_running(), bench.patience)
    text = "the work stops" if stopped else "the work runs on"
    return Cell(text if ended else f"{text}; never ends", stopped and bool(ended))


def killed(bench: Bench, modern: bool) -> Cell:
    """SIGKILL of the client itself. In a session that stops nothing, whoever it is (MCP-H01)."""
    open_session(bench, modern)
    bench.call(1, "hang", "left", modern)
    bench.client.kill()
    stopped = bench.stopped("left")
    return Cell("the work stops" if stopped else "the work runs on", stopped if modern else None)


Stage = Callable[[Bench, bool], Cell]
STAGES: dict[str, Stage] = {
    "connecting": connecting,
    "handshake": before_the_session,
    "sign_in": signing_in,
    "in_flight": in_flight,
    "progress": after_progress,
    "answer": on_its_way,
    "closed": input_ends,
    "sign_in_closed": input_ends_while_signing_in,
    "killed": killed,
}


def measure(contender: Contender, patience: float, modern: bool) -> dict[str, Cell]:
    """Every stage; one that could not be played is a cell that says so."""
    cells: dict[str, Cell] = {}
    for key, stage in STAGES.items():
        try:
            with Bench(contender, patience, "both", key.removesuffix("_closed")) as bench:
                cells[key] = stage(bench, modern)
        except NoSignIn as failure:
            cells[key] = Cell(str(failure), None)
        except (Rejected, OSError) as failure:
            cells[key] = Cell(str(failure), False)
    return cells
