"""Rows that a service learns: whoever gets an answer, their rows are on the disk.

One thread learns. It takes all batches that wait, learns them in the order in which they came,
saves the model once, and only then answers all of them (group commit): a save takes a few
milliseconds and confirms any number of batches. A batch is learned whole or not at all.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tell.data.chunks import Chunk
from tell.estimators import load
from tell.exceptions import DriftWarning, ModelFileError, TellError
from tell.files import held
from tell.persistence import LEARNER
from tell.runtime.journal import rows_seen
from tell.runtime.learner import Learning
from tell.serving.refusals import busy
from tell.serving.service import Json, Service, check_learns

_LOG = logging.getLogger(__name__)
MOST_AT_ONCE = 64  # batches of one save
LEARNED_AT_ONCE = 1024  # rows of a step, as in `tell update`
LOOK_SECONDS = 1.0
NOTE_SECONDS = 0.5


@dataclass
class Callers:
    """Where the rows come from; nothing of them is read again."""

    name: str = "tell serve"
    rereadable: bool = False


@dataclass
class Batch:
    """The rows of one request, and its answer."""

    chunks: list[Chunk]
    answer: Future[Json]
    result: Json


class Updates:
    """Learns what callers bring, into the folder of a service; nobody else serves to learn there.

    Raises
    ------
    ModelFileError
        If another service learns into the folder.
    """

    def __init__(self, service: Service) -> None:
        check_learns(service)
        self._service = service
        self._claim = ExitStack()
        try:
            self._claim.enter_context(held(service.folder / LEARNER))
        except BlockingIOError:
            raise ModelFileError(
                f"{service.folder} is being served with --learn by another process, which alone "
                "may learn there; end it, or serve without --learn"
            ) from None
        self._news: list[str] = []  # of the batch that is being learned
        service.refresh()  # what the one before has saved last
        self._learning = self._begin(service.model)
        self._noted_at, self._unnoted = -NOTE_SECONDS, False
        self._waiting: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="updates", daemon=True)
        self._thread.start()

    def submit(self, chunks: list[Chunk]) -> Future[Json]:
        """Have rows learned; the answer comes when they are saved."""
        answer: Future[Json] = Future()
        self._waiting.put(Batch(chunks, answer, {}))
        return answer

    def close(self) -> None:
        """Learn what waits, and give the folder free."""
        self._waiting.put(None)
        self._thread.join()
        self._claim.close()

    def _begin(self, model: Any) -> Learning:
        service = self._service
        return Learning(
            model,
            service.folder,
            Callers(),
            resume=False,
            score=False,
            trust=service.trust,
            tell_news=self._news.append,
        )

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            batches, ended = [batch], False
            while len(batches) < MOST_AT_ONCE and not ended and not self._waiting.empty():
                further = self._waiting.get()
                ended = further is None
                batches += [] if further is None else [further]
            self._commit(batches)
            if ended:
                break
        self._note()

    def _next(self) -> Batch | None:
        """Wait for a batch; meanwhile follow what others save into the folder."""
        while True:
            try:
                return self._waiting.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                self._note()
                with suppress(TellError):  # a folder that is being moved: the next look tells
                    if self._service.refresh():
                        self._learning = self._begin(self._service.model)

    def _commit(self, batches: list[Batch]) -> None:
        """Learn batches, save, answer."""
        learned = []
        for batch in batches:
            if not batch.answer.set_running_or_notify_cancel():
                continue  # nobody waits for it any more
            try:
                batch.result = self._learn(batch.chunks)
                learned.append(batch)
            except Exception as error:
                batch.answer.set_exception(error)
        if not learned:
            return
        try:
            with self._service.turn:
                self._learning.save(finished=True, noted=False)
        except Exception as error:
            _LOG.error("the model could not be saved: %s", error)
            self._forget_unsaved()
            for batch in learned:
                batch.answer.set_exception(
                    busy("the model could not be saved, and these rows were not learned; try again")
                )
            return
        self._unnoted = True
        if time.monotonic() - self._noted_at >= NOTE_SECONDS or self._learning.has_news:
            self._note()
        self._service.adopt(self._learning.model)
        for batch in learned:
            batch.answer.set_result(batch.result)

    def _note(self) -> None:
        """Bring the journal up to date, but not more often than anybody looks; it stops nobody."""
        if not self._unnoted:
            return
        self._noted_at, self._unnoted = time.monotonic(), False
        try:
            with self._service.turn:
                self._learning.note()
        except Exception:
            _LOG.exception("the journal could not be written")
        self._service.version += 1

    def _learn(self, chunks: list[Chunk]) -> Json:
        learning, drifts = self._learning, []
        with self._service.turn, learning.all_or_nothing(), _caught() as caught:
            self._news.clear()
            before = learning.rows
            # Rows are counted on from those seen, as on the page.
            for chunk in in_steps(chunks, start=rows_seen(learning.model)):
                learning.take(chunk)
            drifts = [str(w.message) for w in caught if issubclass(w.category, DriftWarning)]
        last = learning.model.stream_[-1] if learning.model.stream_ else {}
        rows = learning.rows - before
        return {
            "rows": rows,
            "skipped": sum(map(len, chunks)) - rows,
            "rows_seen": rows_seen(learning.model),
            "loss": last.get("loss"),
            "running_loss": last.get("running_loss"),
            "baseline_loss": last.get("baseline_loss"),
            "drift": bool(last.get("drift", False)),
            "warnings": [*drifts, *self._news],
        }

    def _forget_unsaved(self) -> None:
        """Go on from what the folder holds."""
        try:
            model = load(self._service.folder, trust=self._service.trust)
        except TellError:
            return  # the folder is gone: the next save tries again with all that was learned
        self._learning = self._begin(model)
        self._service.adopt(model)


@contextmanager
def _caught() -> Iterator[list[warnings.WarningMessage]]:
    """Drift alone is told; that columns were matched here, not by the estimator, is no news."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DriftWarning)
        yield caught


def in_steps(
    chunks: list[Chunk], most: int = LEARNED_AT_ONCE, *, start: int = 0
) -> Iterator[Chunk]:
    """The rows of all chunks, at most so many at a time, counted from `start`."""
    for chunk in chunks:
        for first in range(0, len(chunk), most):
            part = chunk.part(first, first + most, start=start)
            yield part
            start += len(part)
