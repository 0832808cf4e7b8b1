"""The table of what was seen."""

from suite import Outcome

Seen = dict[str, dict[str, Outcome]]  # by revision and scenario


def cell(seen: Seen, beside: Seen | None, scenario: str, revisions: list[str], excused: bool) -> tuple[str, bool]:
    """What a column shows of a scenario, and whether that is bold: worse than `beside`, or without one than passed."""
    found = {revision: seen[revision].get(scenario) for revision in revisions}
    texts = {revision: str(outcome) if outcome else "not run" for revision, outcome in found.items()}
    worse = False
    for revision, outcome in found.items():
        limit = beside[revision].get(scenario) if beside else None
        worse |= outcome is None or (not excused and outcome.is_worse_than(limit))
    if len(set(texts.values())) == 1:
        text = texts[revisions[0]]
    else:
        text = "; ".join(f"{text} ({revision})" for revision, text in texts.items() if text != "passed")
    return (f"**{text}**" if worse else text), worse


def totals(seen: Seen, revision: str) -> str:
    outcomes = seen[revision].values()
    counts: dict[str, int] = {}
    for outcome in outcomes:
        word = str(outcome).split()[-1]
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items(), key=lambda pair: pair[0] != "passed"))


def markdown(title: str, rows: list[list[str]], heads: list[str]) -> list[str]:
    lines = [f"| {' | '.join([title, 'revisions', *heads])} |", f"| {' | '.join(['---'] * (len(heads) + 2))} |"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def shown(revisions: list[str]) -> str:
    return revisions[0] if len(revisions) == 1 else f"{revisions[0]} … {revisions[-1]}"
