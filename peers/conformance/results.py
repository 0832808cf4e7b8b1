"""The table of what was seen."""

from collections import Counter
from dataclasses import dataclass

from suite import Outcome

Seen = dict[str, dict[str, Outcome]]  # by revision and scenario


@dataclass
class Excuse:
    """Why a scenario fails these checks in these columns."""

    why: str
    columns: tuple[str, ...]
    checks: tuple[str, ...]


def is_worse(outcome: Outcome | None, beside: Outcome | None, excuse: Excuse | None) -> bool:
    """Whether a scenario was worse than `beside`, or without one than passed; or did not come to it; or needs its excuse no more."""
    if outcome is None:
        return True
    limit = beside or Outcome()
    if limit.passed and not outcome.passed and not outcome.failed:
        return True
    unexcused = [check for check in outcome.failed if not excuse or check not in excuse.checks]
    if excuse and not outcome.failed:
        return True
    return (len(unexcused), outcome.warned) > (len(limit.failed), limit.warned)


def cell(outcomes: dict[str, Outcome | None]) -> str:
    """What was seen of one scenario, by revision."""
    texts = {revision: str(outcome or "not run") for revision, outcome in outcomes.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{text} ({revision})" for revision, text in texts.items() if text != "passed")


def totals(outcomes: dict[str, Outcome]) -> str:
    counts = Counter(str(outcome).split()[-1] for outcome in outcomes.values())
    return ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "warned", "skipped") if counts[word])


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def span(revisions: list[str]) -> str:
    return revisions[0] if len(revisions) == 1 else f"{revisions[0]} … {revisions[-1]}"
