"""What every command prints with: two consoles, JSON, and text that is safe to show."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

# Narrow numbers must not be coloured or wrapped behind the reader's back: what is printed
# to a pipe is what is printed to a terminal, less the colours.
out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def plain(value: object) -> str:
    r"""Make text from outside (a file name, a column, an error) safe and one line long.

    Control characters could move the cursor, and half a Unicode pair cannot be printed at all.

    >>> plain("a[red]\nb\x1b[2J")
    'a[red]\\nb\\x1b[2J'
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in str(value)
    )


def say(text: str) -> None:
    """Print one line to standard error: news for the reader, never part of the result."""
    err.print(plain(text), markup=False)


def complain(text: str) -> None:
    """Print the one line that goes with a failure."""
    err.print("[bold red]tell:[/]", end=" ")
    err.print(plain(text), markup=False)


def print_json(content: object) -> None:
    """Write one JSON document to standard output; numbers that are not finite become null."""
    json.dump(_finite(content), sys.stdout, indent=2, ensure_ascii=False, default=_native)
    sys.stdout.write("\n")


def table(*columns: str, text: tuple[str, ...] = ()) -> Table:
    """Begin a table of numbers; the columns named in `text` are set flush left."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        left = column in text
        grid.add_column(column, justify="left" if left else "right", no_wrap=not left)
    return grid


@contextmanager
def short_warnings() -> Iterator[None]:
    """Show each different warning once, as one line, instead of Python's two with a path."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if (line := str(message)) not in shown:
            shown.add(line)
            err.print("[yellow]warning:[/]", end=" ")
            err.print(plain(line), markup=False)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        # Commands match columns by name themselves and hand on plain arrays.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        warnings.showwarning = show
        yield


def _native(value: Any) -> object:
    """Turn NumPy numbers and arrays into what JSON knows."""
    convert: Callable[[], object] | None = getattr(value, "tolist", None)
    return convert() if convert else str(value)


def _finite(content: object) -> object:
    """JSON has no NaN and no infinity, and `json` would write them all the same."""
    if isinstance(content, dict):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if hasattr(content, "tolist"):
        return _finite(content.tolist())
    if isinstance(content, float) and content - content != 0:
        return None
    return content
