"""A model learning from rows: batch by batch, saved as it goes, never left half-updated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tell.estimators import load
from tell.estimators.validation import unchanged_on_error
from tell.exceptions import (
    DriftWarning,
    GrowthWarning,
    InputError,
    ModelChangedError,
    ModelFileError,
)
from tell.runtime.journal import Journal, rows_seen
from tell.runtime.model_rows import kept

if TYPE_CHECKING:
    from tell.data.chunks import Chunk


MOST_MERGES = 20  # with models of other writers, before one save is given up
MOST_LOOKED_AT = 256  # latest rows in which unusual ones are looked for at a save
MOST_REFUSALS = 20  # rows that cannot be used are told one by one, the others counted
MOST_UNFINISHED = 16  # updates with other data of which the model remembers how far they came

# What was noted of the rows of the fit alone.
OF_THE_FIT = ("spread", "members")


class Origin(Protocol):
    """Where rows come from: a source, or the callers of a service."""

    name: str
    rereadable: bool


def _nobody(text: str) -> None:
    """Nobody wants to hear the news."""


class Learning:
    """One run of `tell update`, or of a service that learns.

    Parameters
    ----------
    model : TELL or DeepTELL
    folder : Path
        Where the model is saved.
    source : Source or other Origin
        The rows. Its name recognises an update that was interrupted.
    resume : bool
        Whether to pass over the rows that the interrupted update had saved.
    score : bool
        Whether to score rows before learning from them.
    trust : bool
        Whether the folder may name code, should it have to be read again.
    tell_news : callable
        Takes one line of text for people.
    """

    def __init__(
        self,
        model: Any,
        folder: Path,
        source: Origin,
        *,
        resume: bool,
        score: bool,
        trust: bool = False,
        tell_news: Callable[[str], None] = _nobody,
    ) -> None:
        self.model, self.folder, self._trust = model, folder, trust
        self._say = tell_news
        self.journal = Journal.read(folder)
        self._latest: NDArray[np.floating[Any]] | None = None
        self._before = self._seen = int(kept(model).get("rows_seen") or 0)
        interrupted = _noted(kept(model), source.name)
        # A stream that starts again brings new rows; only a file has some that were learned.
        same = source.rereadable and interrupted.get("data") == source.name
        finished = bool(interrupted.get("finished", True))
        self._unfinished = int(interrupted["rows"]) if same and not finished else 0
        self._pass_over = int(interrupted["rows"]) if same and resume else 0
        self._done = same and finished and resume
        self._data, self._score = source.name, score
        self.rows = self.saved = self._skipped = self._drifts = self._refused = 0
        self._position = self._pass_over
        self._events = len(getattr(model, "growth_", ()))
        self.finished = False
        self._unsaved: list[NDArray[np.float32]] = []
        self.unsaved_bytes = 0
        self._loss = 0.0
        self._labels: list[NDArray[np.int32]] = []
        self._known: list[NDArray[Any]] = []

    def opening(self) -> str:
        """Say how far the model has come."""
        text = f"{self.folder} has seen {self._before:,} rows"
        if self._unfinished:
            text += f"; the last update with {self._data} was saved after {self._unfinished:,} rows"
            text += ", going on there" if self._pass_over else " (--resume goes on there)"
        if self._done:
            text += f"; {self._data} was learned to its end, {self._pass_over:,} rows: only rows "
            text += "behind them are learned (without --resume all are learned again)"
        return text

    def take(self, chunk: Chunk) -> None:
        """Learn from a chunk, without rows that have gaps or were learned before."""
        end = chunk.start + len(chunk)
        fresh = ~np.isnan(chunk.X).any(axis=1)
        new = np.arange(chunk.start, end) >= self._pass_over
        self._skipped += int((new & ~fresh).sum())
        fresh &= new
        self._position = max(self._position, end)
        if not fresh.any():
            return
        X = chunk.X[fresh]
        if self._score:
            self._test(X, None if chunk.y is None else chunk.y[fresh])
        with warnings.catch_warnings(record=True) as caught:
            for kind in (DriftWarning, GrowthWarning):
                warnings.simplefilter("always", kind)
            self.model.partial_fit(X)
        for warning in caught:
            text: str | Warning = warning.message
            if issubclass(warning.category, DriftWarning):
                self._drifts += 1
                text = self._where(str(text), X, np.flatnonzero(fresh) + chunk.start)
                self.journal.add_event("drift", text, rows_seen(self.model))
            if issubclass(warning.category, GrowthWarning):
                self.journal.add_event("growth", str(text), rows_seen(self.model))
                self._say(str(text))
                continue
            warnings.warn(text, warning.category, stacklevel=2)
        self.rows += len(X)
        self._latest = X[-MOST_LOOKED_AT:]
        self._unsaved.append(X)
        self.unsaved_bytes += X.nbytes

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Forget all of the block's chunks if one of them fails."""
        before = dict(vars(self)) | {"_unsaved": list(self._unsaved)}
        try:
            with unchanged_on_error(self.model):
                yield
        except BaseException:
            vars(self).update(before)
            raise

    @property
    def has_news(self) -> bool:
        """Whether something happened since the last save that somebody may be waiting for."""
        return self.journal.has_news

    def refuse(self, error: InputError) -> None:
        """Pass over a row that cannot be used."""
        self._refused += 1
        if self._refused <= MOST_REFUSALS:
            self._say(f"skipped: {str(error).splitlines()[0]}")
        if self._refused == MOST_REFUSALS:
            self._say("further rows that cannot be used are only counted")

    def _where(self, message: str, X: NDArray[np.float32], rows: NDArray[np.intp]) -> str:
        """What drifts, with the rows it was seen in, in the words of the command."""
        from tell.contract import cluster_names

        near = self.model.transform(X)
        worst = int(near.min(axis=1).argmax())
        j = int(near[worst].argmin())
        name = cluster_names(self.model).get(j)
        cluster = f"cluster {j}" if name is None else f"cluster {j} ({name})"
        message = message.replace("half_life", "--half-life")
        return (
            f"{message} (seen in rows {rows[0]:,} to {rows[-1]:,}; row {rows[worst]:,} lies "
            f"farthest from its centre, in {cluster})"
        )

    def _test(self, X: NDArray[np.float32], y: NDArray[Any] | None) -> None:
        near = self.model.transform(X)
        self._loss += float((near.min(axis=1) ** 2).sum())
        if y is not None:
            self._labels.append(near.argmin(axis=1).astype(np.int32))
            self._known.append(y)

    def save(self, *, finished: bool, noted: bool = True) -> None:
        """Write model and count of rows together, so that the one is never without the other.

        If somebody else has written to the folder since, their model learns what this one has
        learned since its last save: neither's rows are lost. With `noted`, the journal follows.
        """
        self._save_merged(finished=finished)
        if noted:
            self.note()

    def note(self) -> None:
        """Bring the journal up to what was saved."""
        self.journal.add_model(self.model, self._latest)
        self.journal.write(self.folder)

    def _save_merged(self, *, finished: bool) -> None:
        for _ in range(MOST_MERGES):
            try:
                self._save(finished=finished)
                return
            except ModelChangedError:
                self._go_on_from_theirs()
        self._save(finished=finished)

    def _save(self, *, finished: bool) -> None:
        metadata = kept(self.model)
        seen = int(metadata.get("rows_seen") or 0) + self.rows - self.saved
        # What the members look like was measured for the rows of the fit alone.
        found = getattr(self.model, "metadata_", None)
        whole = found if isinstance(found, dict) else {}  # a user's own notes stay
        notes = {key: value for key, value in whole.items() if key not in OF_THE_FIT}
        notes |= {"rows_seen": seen} | self._notes(metadata, finished=finished)
        self.model.save(self.folder, metadata=notes)
        self.saved, self._seen = self.rows, seen
        self._unsaved, self.unsaved_bytes = [], 0

    def _notes(self, metadata: dict[str, Any], *, finished: bool) -> dict[str, Any]:
        """How far this update has come, and those that others left unfinished meanwhile."""
        others = dict(metadata.get("unfinished") or {})
        last = metadata.get("update") or {}
        if not last.get("finished", True):
            others[last["data"]] = last["rows"]
        others.pop(self._data, None)
        done = {"data": self._data, "rows": self._position, "finished": finished}
        return {"update": done, "unfinished": dict(list(others.items())[-MOST_UNFINISHED:])}

    def _go_on_from_theirs(self) -> None:
        theirs: Any = load(self.folder, trust=self._trust)
        if not isinstance(theirs, type(self.model)):
            raise ModelFileError(
                f"{self.folder} holds a {type(theirs).__name__} by now, which cannot take the rows "
                f"of a {type(self.model).__name__}; learn them into another folder"
            )
        for name in ("half_life", "grow"):
            if name in theirs.get_params():
                theirs.set_params(**{name: getattr(self.model, name)})
        with warnings.catch_warnings():
            for kind in (DriftWarning, GrowthWarning):  # said when the rows were learned first
                warnings.simplefilter("ignore", kind)
            for X in self._unsaved:
                theirs.partial_fit(X)
        self.model = theirs

    def summary(self) -> dict[str, Any]:
        """Everything `tell update` prints, as data."""
        return {
            "model": str(self.folder),
            "data": self._data,
            "rows": self.rows,
            "rows_seen": self._seen,
            "skipped": self._skipped,
            "refused": self._refused,
            "finished": self.finished,
            "drift_warnings": self._drifts,
            "growth": list(getattr(self.model, "growth_", ()))[self._events :],
            "prequential": self._scores(),
        }

    def _scores(self) -> dict[str, float] | None:
        if not self._score or not self.rows:
            return None
        scores = {"loss": self._loss / self.rows}
        if self._known:
            from tell.metrics import evaluate, has_class

            y, labels = np.concatenate(self._known), np.concatenate(self._labels)
            if (known := has_class(y)).any():
                scores |= evaluate(y[known], labels[known]).as_dict()
        return scores


def _noted(metadata: dict[str, Any], data: str) -> dict[str, Any]:
    """What the model says of an earlier update with this data."""
    last = metadata.get("update") or {}
    rows = (metadata.get("unfinished") or {}).get(data)
    if last.get("data") == data or rows is None:
        return dict(last)
    return {"data": data, "rows": rows, "finished": False}
