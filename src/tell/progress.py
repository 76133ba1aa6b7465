"""A progress bar for anything that takes more than two seconds; silent unless asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Bar:
    """What long-running code talks to. This one is silent; `progress` yields a visible one."""

    def update(self, done: float, **values: float | str) -> None:
        """Say how much is done (in units of the total) and the values worth watching."""


class _RichBar(Bar):
    def __init__(self, description: str, total: float | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *([] if total is None else [TextColumn("{task.percentage:>3.0f}%")]),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[values]}"),
            console=Console(stderr=True),
            transient=False,
        )
        self._task = self._progress.add_task(description, total=total, values="")
        self._shown = 0.0

    def update(self, done: float, **values: float | str) -> None:
        now = time.monotonic()
        if now - self._shown < 0.1 and done < (self._progress.tasks[0].total or 0):
            return
        self._shown = now
        text = "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in values.items()
        )
        self._progress.update(self._task, completed=done, values=text)


@contextmanager
def progress(description: str, total: float | None, *, visible: bool) -> Iterator[Bar]:
    """Yield a bar on standard error, or a silent one.

    >>> with progress("fit", total=10, visible=False) as bar:
    ...     bar.update(3, loss=0.5)
    """
    if not visible:
        yield Bar()
        return
    bar = _RichBar(description, total)
    with bar._progress:
        yield bar
