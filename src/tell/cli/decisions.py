"""What a preparation decided, as a table for people."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from tell.cli.console import err, plain, say, table
from tell.cli.numbers import shown
from tell.data.preparation import Preparation
from tell.data.table_preparation import decisions

MOST_COLUMNS = 40


def print_preparation(preparation: Preparation, *, by_default: bool) -> None:
    """Say on standard error what every column is and what becomes of it."""
    lines = decisions(preparation)
    grid = table("column", "is", "becomes", "gaps", "filled with", "why", text=(
        "column", "is", "becomes", "filled with", "why",
    ))  # fmt: skip
    for line in lines[:MOST_COLUMNS]:
        grid.add_row(*(Text(plain(cell)) for cell in _cells(line)))
    err.print(grid)
    if len(lines) > MOST_COLUMNS:
        say(f"… and {len(lines) - MOST_COLUMNS:,} more columns; tell show --json lists all")
    if by_default:
        # Measured by benchmarks/tables.py.
        say("equal weights, euclidean: best over 11 labelled tables; change: --column NAME:TYPE")


def _cells(line: dict[str, Any]) -> list[str]:
    gaps = "< 0.1%" if 0 < line["missing"] < 0.001 else f"{line['missing']:.1%}"
    gaps = gaps if line["missing"] else ""
    fill = line["fill"] if line["missing"] else None
    filled = "" if fill is None else (shown([fill])[0] if isinstance(fill, float) else str(fill))
    return [line["column"], line["kind"], line["treatment"], gaps, filled, line["note"]]
