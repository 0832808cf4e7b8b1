"""The conformance suite: which scenarios it has, and what it says of a server or of a client."""

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

NODE_PEERS = Path(__file__).resolve().parents[1] / "node/conformance"
PROGRAM = NODE_PEERS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
PATIENCE = 120  # seconds for one revision
STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")

# All that the suite has of a revision. What 2026-07-28 requires includes the extensions, which belong to no revision.
SELECTIONS = {
    "2025-03-26": ["--suite", "all", "--spec-version", "2025-03-26"],
    "2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
    "2025-11-25": ["--suite", "all", "--spec-version", "2025-11-25"],
    "2026-07-28": ["--requirements", "2026-07-28"],
}
# Why scenarios of extensions are not played, by the beginnings of their names.
LEFT_OUT = {
    ("auth/client-credentials-", "auth/wif-"): "a program signs in without a person, which Rescind does not do",
    ("auth/enterprise-",): "a company's identity provider vouches for the person, which Rescind does not ask of it",
    ("auth/dpop",): "a token is bound to a key (DPoP), which Rescind does not ask for",
    ("sep-2640-",): "skills are files",
}
# The beginning of the line by which a client of ours says that its scenario went wrong.
FAILED = "failed: "


@dataclass
class Outcome:
    """What the checks of one scenario said."""

    passed: int = 0
    warned: int = 0
    # The ids of the checks that failed; one may fail several times.
    failed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.failed:
            return f"{len(self.failed)} failed"
        if self.warned:
            return f"{self.warned} warned"
        return "passed" if self.passed else "skipped"


@dataclass
class Scenario:
    """A scenario, and the revisions that the suite has it for; none if it is of an extension."""

    name: str
    revisions: list[str]


def list_scenarios(node: str, side: str) -> list[Scenario]:
    """The scenarios for servers or for clients, in the suite's order."""
    command = [node, str(PROGRAM), "list", f"--{side}"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    found = re.findall(r"^  - (\S+)(?: \[(.*)\])?$", listed, re.MULTILINE)
    return [Scenario(name, [each for each in revisions.split(",") if each in SELECTIONS]) for name, revisions in found]


def run(node: str, selection: list[str], folder: Path, env: dict[str, str] | None = None) -> dict[str, Outcome]:
    """Runs scenarios; what was seen, by scenario."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "said").open("ab") as said:
        command = [node, str(PROGRAM), *selection, "--output-dir", str(folder)]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=env, timeout=PATIENCE, check=False)
    return {name(path.parent.relative_to(folder)): outcome(path) for path in folder.glob("**/checks.json")}


def name(folder: Path) -> str:
    """The scenario that wrote this folder: `server-NAME-TIME` or `NAME-TIME`, where a name may have a slash."""
    return STAMP.sub("", folder.as_posix()).removeprefix("server-")


def outcome(path: Path) -> Outcome:
    checks = json.loads(path.read_text(encoding="utf-8"))
    statuses = [check["status"] for check in checks]
    failed = [check["id"] for check in checks if check["status"] == "FAILURE"]
    # Some scenarios see nothing amiss in a client that ends with an error.
    stderr = path.with_name("stderr.txt")
    lines = stderr.read_text(encoding="utf-8").splitlines() if stderr.exists() else []
    failed += ["client" for line in lines if line.startswith(FAILED)]
    return Outcome(statuses.count("SUCCESS"), statuses.count("WARNING"), failed)
