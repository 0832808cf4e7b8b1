"""What a session is by the program itself, and by each package: it must be the same. Then what each start costs."""

import faulthandler
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from description import ROOT

from .way import IS_WINDOWS, WITHIN, Bench, Way, expect, left_out

PYTHON = [sys.executable, "-I", "-c"]

# Reports each signal, until SIGUSR2.
REPORTS = """
import signal, sys
asked = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, asked)
print("ready", file=sys.stderr, flush=True)
while (one := signal.sigwait(asked)) != signal.SIGUSR2:
    print(one.name, file=sys.stderr, flush=True)
sys.exit(3)
"""

# Of the state of a process, what it has from the one that started it.
INHERITED = ("Umask", "SigBlk", "SigIgn")
# Names of the session itself.
OWN = ("RESCIND_LAUNCHER=", "RESCIND_MARK=", "NODE_OPTIONS=", "PATH=", "PWD=", "_=", "SHLVL=", "OLDPWD=")

LARGE = 'import sys\nfor i in range(200_000): sys.stdout.write(\'{"jsonrpc":"2.0","method":"n","params":[%06d]}\\n\' % i)'
LEAVES_A_CHILD = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print("ready", file=sys.stderr, flush=True)
time.sleep(1000)
"""


def compare(bench: Bench, bare: Way, others: list[Way]) -> None:
    checks = {"exit codes": exits, "standard streams": streams, "a slow reader": slow_reader}
    if not IS_WINDOWS:
        checks |= {"closed streams": closed_streams, "signals": signals, "a terminal": terminal, "a kill": killed}
    if Path("/proc/self/fd").exists():
        checks["what a server inherits"] = inherited
    real = ROOT / "peers/node/mcp1/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    if real.exists() and (node := shutil.which("node")):
        checks["a real server"] = lambda bench, way: real_server(bench, way, [node, str(real), "stdio"])
    else:
        left_out("a real server", "peers/install")
    checks["the demo"] = demo
    expected = {name: in_time(check, bench, bare) for name, check in checks.items()}
    for name, seen in expected.items():
        print(f"{bare.name}: {name}: {str(seen)[:300]}")
    for way in others:
        asked = dict(checks)
        if way.stays and platform.system() != "Linux":
            # No other system ends a process with its parent: that one lasts until its client closes its streams.
            asked.pop("a kill", None)
        for name, check in asked.items():
            expect(f"{way.name}: {name}", in_time(check, bench, way), expected[name])
        print(f"{way.name}: {', '.join(asked)}: the same")


def in_time(check, bench: Bench, way: Way):
    """What waits for ever fails, and shows where it waits."""
    faulthandler.dump_traceback_later(WITHIN, exit=True)
    seen = check(bench, way)
    faulthandler.cancel_dump_traceback_later()
    return seen


def demo(bench: Bench, way: Way) -> int:
    ran = bench.run(way, "demo")
    expect("demo", ran.returncode, 0, ran.stdout.decode() + ran.stderr.decode())
    return ran.returncode


def exits(bench: Bench, way: Way) -> list:
    python = ["run", *PYTHON]
    asked = [[*python, "raise SystemExit(7)"], ["run", "/not/there"], ["run"], ["--nonsense"], ["ps"], []]
    if not IS_WINDOWS:
        ends = [f"import os; os.kill(os.getpid(), {number})" for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGPIPE)]
        asked += [[*python, end] for end in ends]
    return [bench.run(way, *words).returncode for words in asked]


def streams(bench: Bench, way: Way) -> list:
    """Everything that is read is written, and then both ends close."""
    lines = b"".join(b'{"jsonrpc":"2.0","method":"n","params":{"text":"%06d \xc3\xa9"}}\n' % i for i in range(20_000))
    copy = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
    ran = bench.run(way, "run", *PYTHON, copy, input=lines)
    expect("standard output", ran.stdout == lines, True)
    return [ran.returncode, ran.stderr]


def slow_reader(bench: Bench, way: Way) -> list:
    """More than any pipe holds, taken in small pieces."""
    with bench.start(way, "run", *PYTHON, LARGE, bufsize=0) as started:
        lines, length = 0, 0
        while piece := started.stdout.read(1000):
            lines += piece.count(b"\n")
            length += len(piece)
        return [lines, length, started.wait(WITHIN)]


def closed_streams(bench: Bench, way: Way) -> list:
    codes = []
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        shell = Way(way.name, ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *way.command], way.path, [], way.environment)
        codes.append(bench.run(shell, "run", *PYTHON, "raise SystemExit(5)").returncode)
    return codes


def signals(bench: Bench, way: Way) -> list:
    """To the process alone, and to its group: the server gets each once."""
    seen = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for send in (os.kill, os.killpg):
            with bench.start(way, "run", *PYTHON, REPORTS, start_new_session=True) as started:
                expect("server", started.stderr.readline(), b"ready\n")
                send(started.pid, number)
                seen.append((send.__name__, *reported(started)))
    return seen


def reported(started: subprocess.Popen) -> list:
    """What the server has got. A signal that is passed on twice arrives before a few others have made the whole way."""
    seen = [started.stderr.readline()]
    for _ in range(4):
        started.send_signal(signal.SIGUSR1)
        while (line := started.stderr.readline()) not in (b"SIGUSR1\n", b""):
            seen.append(line)
    started.send_signal(signal.SIGUSR2)
    return [*seen, started.stderr.read(), started.wait(WITHIN)]


def terminal(bench: Bench, way: Way) -> list:
    """It is the server's, too, and CTRL+C reaches that once. Two that come close together are often taken for one, so this is
    tried ten times."""
    return [typed(bench, way) for _ in range(10)]


def typed(bench: Bench, way: Way) -> list:
    import fcntl
    import termios

    typist, screen = os.openpty()
    owned = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    options = {"stdin": screen, "start_new_session": True, "preexec_fn": owned}
    with bench.start(way, "run", *PYTHON, f"open('/dev/tty').close()\n{REPORTS}", **options) as started:
        os.close(screen)
        expect("server", started.stderr.readline(), b"ready\n")
        os.write(typist, b"\x03")
        seen = reported(started)
    os.close(typist)
    return seen


def killed(bench: Bench, way: Way) -> list:
    """The server and its child end, although the client keeps its ends of the pipes open: their other ends close."""
    with bench.start(way, "run", *PYTHON, LEAVES_A_CHILD) as started:
        expect("server", started.stderr.readline(), b"ready\n")
        started.kill()
        return [started.stderr.read(), started.stdout.read(), started.wait(WITHIN)]


def inherited(bench: Bench, way: Way) -> list:
    """Signals, open files, folder and environment of a server; but not its limit of open files, since Node raises its own and
    tells nobody what that was. A shell changes none of these, and Python would."""
    asked = "exec >&2; /bin/cat /proc/self/status; echo; echo /proc/self/fd/*; pwd; echo; exec /usr/bin/env"
    state, others, environment = bench.run(way, "run", "/bin/sh", "-c", asked).stderr.decode().split("\n\n")
    kept = [line for line in state.splitlines() if line.startswith(INHERITED)]
    return [kept, others, sorted(line for line in environment.splitlines() if not line.startswith(OWN))]


def real_server(bench: Bench, way: Way, command: list[str]) -> list:
    """A session with a server that others wrote, from its first answer to its exit."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "check", "version": "1"}}
    asked = [("initialize", about), ("tools/call", {"name": "echo", "arguments": {"message": "through"}}), ("tools/list", {})]
    with bench.start(way, "run", *command) as started:
        answers = []
        for id, (method, params) in enumerate(asked):
            request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
            started.stdin.write(json.dumps(request).encode() + b"\n")
            started.stdin.flush()
            while (answer := json.loads(started.stdout.readline())).get("id") != id or "method" in answer:
                pass
            answers.append(answer)
            if method == "initialize":
                started.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        started.stdin.close()
        started.stdout.read()
        return [answers, started.wait(WITHIN)]


def costs(bench: Bench, bare: Way, others: list[Way]) -> None:
    """The fastest of forty starts each, which take turns: what else runs here only makes them slower."""
    measured = {bare.name: ([*bare.command, "--version"], bare)}
    for way in others:
        if not way.environment:
            measured[way.name] = ([*way.command, "--version"], way)
            if way.interpreter:
                measured[f"{way.name} alone"] = (way.interpreter, way)
    times: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(40):
        for name, (command, way) in measured.items():
            begin = time.perf_counter()
            subprocess.run(command, env=bench.environment_of(way), stdout=subprocess.DEVNULL, check=True)
            times[name].append(time.perf_counter() - begin)
    took = {name: min(each) for name, each in times.items()}
    print(f"start-up: {bare.name}: {took[bare.name] * 1000:.1f} ms")
    for way in others:
        if way.name in took:
            beside, what = took[bare.name], bare.name
            if way.interpreter:
                alone = took[f"{way.name} alone"]
                beside, what = beside + alone, f"{what} and its interpreter ({alone * 1000:.1f} ms)"
            print(f"start-up: {way.name}: {took[way.name] * 1000:.1f} ms, {took[way.name] / beside:.2f} of {what}")
