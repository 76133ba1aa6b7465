"""A progress bar for anything that takes more than two seconds; silent unless asked for.

Work that goes on in other processes tells how far it is through small files: see `relayed_to` for
their side and `gathered` for ours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

RELAY_SECONDS = 0.5


class Bar:
    """What long-running code talks to. This one is silent; `progress` yields a visible one."""

    def update(self, done: float, **values: float | str) -> None:
        """Say how much is done (in units of the total) and the values worth watching."""


def _new_display(*, percentage: bool = True) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *([TextColumn("{task.percentage:>3.0f}%")] if percentage else []),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[values]}"),
        console=Console(stderr=True),
        transient=False,
    )


def _in_words(values: Mapping[str, float | str]) -> str:
    return "  ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values.items()
    )


class _RichBar(Bar):
    def __init__(self, description: str, total: float | None) -> None:
        self._progress = _new_display(percentage=total is not None)
        self._task = self._progress.add_task(description, total=total, values="")
        self._shown = 0.0

    def update(self, done: float, **values: float | str) -> None:
        now = time.monotonic()
        if now - self._shown < 0.1 and done < (self._progress.tasks[0].total or 0):
            return
        self._shown = now
        self._progress.update(self._task, completed=done, values=_in_words(values))


@contextmanager
def progress(description: str, total: float | None, *, visible: bool) -> Iterator[Bar]:
    """Yield a bar on standard error, or a silent one.

    >>> with progress("fit", total=10, visible=False) as bar:
    ...     bar.update(3, loss=0.5)
    """
    if not visible:
        yield Bar()
    elif _RELAYS:
        yield _RelayedBar(_RELAYS[-1], description, total)
    else:
        bar = _RichBar(description, total)
        with bar._progress:
            yield bar


# --- from other processes ----------------------------------------------------------------------

_RELAYS: list[Path] = []


@contextmanager
def relayed_to(file: Path) -> Iterator[None]:
    """Have all visible bars of this process written to a file, for the process that waits."""
    _RELAYS.append(file)
    try:
        yield
    finally:
        _RELAYS.pop()


class _RelayedBar(Bar):
    def __init__(self, file: Path, description: str, total: float | None) -> None:
        self._file, self._description, self._total = file, description, total
        self._written = 0.0
        self.update(0)

    def update(self, done: float, **values: float | str) -> None:
        now = time.monotonic()
        if now - self._written < RELAY_SECONDS and done < (self._total or 0):
            return
        self._written = now
        news = {
            "description": self._description,
            "total": self._total,
            "completed": done,
            "values": _in_words(values),
        }
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps(news))
        partial.replace(self._file)


@contextmanager
def gathered(files: Mapping[str, Path], *, visible: bool) -> Iterator[None]:
    """Show one bar for every process that writes to one of the files; the keys name them."""
    if not visible:
        yield
        return
    display, over = _new_display(), Event()
    tasks = {name: display.add_task(f"{name}: waiting", total=None, values="") for name in files}

    def watch() -> None:
        while not over.wait(RELAY_SECONDS):
            _show(display, tasks, files)

    watcher = Thread(target=watch, daemon=True)
    with display:
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            _show(display, tasks, files)


def _show(display: Any, tasks: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    for name, file in files.items():
        with suppress(OSError, ValueError):  # not there yet
            news = json.loads(file.read_text())
            news["description"] = f"{name}: {news['description']}"
            display.update(tasks[name], **news)
