"""The rows of `tell update`: learned to their end or until somebody stops it, saved as it goes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from tell.cli.console import say
from tell.progress import progress
from tell.runtime.learner import Learning as Learning

if TYPE_CHECKING:
    from types import FrameType

    from tell.data.chunks import Source

MOST_UNSAVED = 1 << 26  # bytes of rows that are kept for a merge; more are saved at once


def learn_all(
    learning: Learning, source: Source, *, save_rows: int, save_seconds: float, visible: bool
) -> bool:
    """Learn until the rows end (True) or somebody stops it (False); either way, save.

    Whatever goes wrong while rows are read is raised after what was learned has been saved.
    """

    def save_now() -> None:
        if learning.rows > learning.saved:
            learning.save(finished=False)
            if not visible:
                say(f"{_now()} saved after {learning.rows:,} rows")

    finished = False
    with (
        progress("update", source.n_rows, visible=visible) as bar,
        Interruption(save_now, save_seconds) as interruption,
    ):
        try:
            for chunk in source.chunks():
                with interruption.put_off():
                    learning.take(chunk)
                    due = learning.rows - learning.saved >= save_rows or learning.has_news
                    if due or learning.unsaved_bytes >= MOST_UNSAVED:
                        save_now()
                bar.update(chunk.start + len(chunk), rows=f"{learning.rows:,}")
            finished = True
        except KeyboardInterrupt:
            pass
        except BaseException:
            interruption.ignore()
            save_now()  # a stream cannot be read again
            raise
        interruption.ignore()
        learning.save(finished=finished)
        learning.finished = finished
    return finished


def _now() -> str:
    """The time for a log."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Interruption:
    """What happens between batches: regular saves, and the end when Ctrl-C or SIGTERM asks for it.

    Signals interrupt the waiting for rows, but never the learning from them or the saving.

    Parameters
    ----------
    save : callable
        Called every `seconds`, also while no row arrives.
    seconds : float
    """

    def __init__(self, save: Callable[[], None], seconds: float) -> None:
        self._save, self._seconds = save, seconds
        self._busy = self._stop = self._due = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_stop)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_time)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop = True
        if not self._busy:
            raise KeyboardInterrupt

    def _on_time(self, number: int, frame: FrameType | None) -> None:
        self._due = True
        if not self._busy:
            with self.put_off():
                pass

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Let the block finish, then do what was asked for meanwhile."""
        self._busy = True
        yield
        if self._due:
            self._due = False
            self._save()
        self._busy = False
        if self._stop:
            raise KeyboardInterrupt

    def ignore(self) -> None:
        """Put off everything from here on: the last save is being written."""
        self._busy = True
