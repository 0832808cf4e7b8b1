"""Cells, rows, and the two ways to print them."""

import json
from dataclasses import asdict, dataclass, field


@dataclass
class Cell:
    """What was seen. `right` is None where nothing is asked of it."""

    text: str
    right: bool | None
    seen: dict = field(default_factory=dict)

    def __str__(self) -> str:
        text = " ".join(self.text.split()).replace("|", "\\|")
        return f"**{text}**" if self.right is False else text


@dataclass
class Row:
    name: str
    version: str | None = None
    # Why it was not measured; then there are no cells.
    missing: str | None = None
    # By the key of the column.
    cells: dict[str, Cell] = field(default_factory=dict)

    def is_right(self) -> bool:
        return not self.missing and all(cell.right is not False for cell in self.cells.values())


def markdown(title: str, columns: dict[str, str], rows: list[Row]) -> str:
    """A table; what is wrong in bold."""
    lines = [f"| {' | '.join([title, *columns.values()])} |", f"| {' | '.join(['---'] * (len(columns) + 1))} |"]
    for row in rows:
        name = f"{row.name} {row.version}" if row.version else row.name
        cells = [str(row.cells[key]) if key in row.cells else "–" for key in columns]
        if row.missing:
            cells[0] = "not built"
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines)


def as_json(title: str, patience: float, columns: dict[str, str], rows: list[Row]) -> str:
    listed = [{**asdict(row), "right": row.is_right()} for row in rows]
    table = {"table": title, "patience": patience, "columns": columns, "rows": listed}
    return json.dumps(table, indent=2, ensure_ascii=False)
