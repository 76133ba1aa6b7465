"""From options to rows, and to a fitted, assessed and saved model."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.cli.cluster_table import (
    MOST_COLUMNS,
    MOST_ROWS,
    Assessment,
    describe,
    member_statistics,
)
from tell.data.chunks import Chunk, Source
from tell.data.limits import DEFAULT_MEMORY
from tell.exceptions import InputError, ParameterError

if TYPE_CHECKING:
    from tell.data.table_preparation import TablePreparation

# Columns are compared on the first rows; only a difference of this size is worth a word.
SAMPLE_ROWS = 10_000
MUCH_WIDER = 30
# What clusters prepared tables best: benchmarks/tables.py.
TABLE_GEOMETRY = "euclidean"


class Remembered(Source):
    """The rows of a source; the first of them are shown to `look`, the classes of all are kept.

    A stream that was clustered cannot be read again for the classes of its rows, and a file need
    not be.
    """

    def __init__(self, source: Source, look: Callable[[Chunk], None]) -> None:
        super().__init__(
            source.name,
            source.shape,
            chunk_rows=source.chunk_rows,
            feature_names=source.feature_names,
            n_rows=source.n_rows,
            dtype=source.dtype,
        )
        self._source, self._look = source, look
        self.rereadable, self.labelled = source.rereadable, source.labelled
        self.in_memory, self.preparation = source.in_memory, source.preparation
        self._passed = False
        self._classes: list[NDArray[Any]] = []

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self._source.row_shape

    def _rows(self) -> Iterator[Chunk]:
        first_pass, self._passed = not self._passed, True
        for chunk in self._source.chunks():
            if first_pass and chunk.start == 0:
                self._look(chunk)
            if first_pass and chunk.y is not None:
                self._classes.append(chunk.y)
            yield chunk

    def between(self, first: int, last: int | None) -> Iterator[Chunk]:
        return self._source.between(first, last)

    def __getstate__(self) -> dict[str, Any]:
        """For a worker, which shows nothing to anybody."""
        return vars(self) | {"_look": None, "_classes": []}

    def matrix(self) -> Any:
        if not self.in_memory:
            return super().matrix()
        self._look(self._source.read(SAMPLE_ROWS))
        return self._source.matrix()

    def as_stored(self) -> Source:
        stored = copy.copy(self)
        stored._look, stored._classes = self._look, self._classes
        stored._source = self._source.as_stored()
        stored.dtype = stored._source.dtype
        return stored

    def classes(self) -> NDArray[Any] | None:
        return np.concatenate(self._classes) if self._classes else self._source.classes()


def how_to_prepare(
    prepare: bool, types: dict[str, str], gaps: Any, *, standardize: bool
) -> TablePreparation | None:
    """What the options say about tables."""
    from tell.data.table_preparation import TablePreparation

    if prepare:
        scaling: Any = "standard" if standardize else "auto"
        return TablePreparation(types=types or None, gaps=gaps, scaling=scaling)
    if types or gaps != "fill":
        raise ParameterError("--column and --gaps belong to --prepare; leave out --no-prepare")
    return None


def open_new(
    data: str,
    *,
    columns: list[str] | None,
    drop: list[str] | None,
    label: str | None,
    image_size: int | None = None,
    prepare: TablePreparation | None = None,
) -> Source:
    """Open rows for a new model; a table is read through what is learned of it, if asked to."""
    from tell.data.prepared_tables import held_table
    from tell.data.sources import open_source
    from tell.data.tables import TableSource

    source = open_source(data, columns=columns, drop=drop, label=label, image_size=image_size)
    if prepare is None:
        return source
    if not isinstance(source, TableSource):
        if prepare.types or prepare.gaps != "fill":
            raise InputError(
                f"{source.name}: --column and --gaps need a table with columns (CSV, Parquet), got "
                "an array; fill its gaps before saving it"
            )
        return source
    source = source if source.rereadable else held_table(source)
    return prepare.learn(source).apply(source)


def connect(workers: int | None, address: str | None) -> None:
    """Reach the Ray cluster that workers are to run on, before any work is done."""
    if address is not None and workers is None:
        raise ParameterError("--address needs --workers; say how many processes may run there")
    if workers is not None:
        from tell.scale.ray_workers import start

        start(workers, address)


def build(
    clusters: int | str,
    *,
    max_clusters: int | None = None,
    deep: bool = False,
    prepare: TablePreparation | bool | None = False,
    geometry: str | None = None,
    standardize: bool = False,
    n_init: int | None = None,
    half_life: float | None = None,
    trim: float | None = None,
    memory: int | str = DEFAULT_MEMORY,
    only_deep: Mapping[str, Any] | None = None,
    seed: int,
    passes: int | None = None,
    workers: int | None = None,
    visible: bool,
) -> Any:
    """Make the estimator that the options describe; what is None is left to the estimator."""
    from tell import estimators

    shared: dict[str, Any] = {"random_state": seed, "memory": memory, "verbose": int(visible)}
    shared["prepare"] = prepare or False
    if n_init is not None:
        shared["n_init"] = n_init
    given = {name: value for name, value in (only_deep or {}).items() if value is not None}
    if given and not deep:
        names = ", ".join(f"--{name.removeprefix('n_')}" for name in given)
        raise ParameterError(f"{names} must come with --deep, got none; add --deep or leave it out")
    if max_clusters is not None:
        if clusters != "auto":
            raise ParameterError(f"--max belongs to a choice, got -k {clusters}; leave one out")
        shared["max_clusters"] = max_clusters
    if not deep:
        geometry = geometry or (TABLE_GEOMETRY if prepare else "sphere")
        shared |= {"geometry": geometry, "standardize": standardize, "half_life": half_life}
        shared |= {} if trim is None else {"trim": trim}
        shared |= {"workers": workers} if passes is None else {"workers": workers, "passes": passes}
        return estimators.TELL(clusters, **shared)
    if passes is not None:
        raise ParameterError("--deep reads all rows in every epoch; leave out --passes")
    if standardize or trim or half_life is not None or geometry not in (None, "sphere"):
        raise ParameterError(
            "--deep learns its own features and clusters them on the sphere; leave out "
            "--standardize, --geometry, --half-life and --trim"
        )
    return estimators.DeepTELL(clusters, workers=workers, **shared, **given)


def fit_and_save(
    model: Any,
    source: Source,
    folder: Path,
    *,
    label: str | None = None,
    choice: dict[str, Any] | None = None,
    image_size: int | None = None,
    like: Any = None,
) -> dict[str, Any]:
    """Fit, hold the model against its rows, save it, and say all that came out as data."""
    started = time.perf_counter()
    model.fit(source) if like is None else model.fit(source, like=like)
    seconds = time.perf_counter() - started
    found = _assessed(model, source)
    result = _summary(model, found) | {
        "seconds": round(seconds, 3),
        "data": source.name,
        "model": str(folder),
    }
    # What later commands need: how rows were read, how many there were, how near they lie.
    kept = {
        "data": source.name,
        "label": label,
        "features": source.feature_names,
        "choice": choice,
        "image_size": image_size,
        "rows_seen": result["rows"],
        "spread": found.spread.tolist(),
        "metrics": result["metrics"],
        "members": _members(model, source, found),
    }
    model.save(folder, metadata=kept)
    return result


def _members(model: Any, source: Source, found: Assessment) -> dict[str, Any] | None:
    """What the members of each cluster look like, in the terms of the table."""
    from tell.explanations.terms import learn_terms

    if not _few(source, found):
        return None
    names = source.feature_names or [str(f) for f in range(source.n_features)]
    terms = learn_terms(source.preparation, names)
    numbers = member_statistics(model.labels_, len(found.sizes), source.chunks(), terms)
    if numbers is None:
        return None
    kinds = [column.kind for column in terms.of]
    titles = list(terms.titles(names)) if source.feature_names else None
    return numbers | {"features": titles, "kinds": kinds, "readable": terms.readable.tolist()}


def _few(source: Source, found: Assessment) -> bool:
    """Whether rows have columns that people read, and can be read once more at little cost."""
    narrow = len(source.shape) == 1 and source.n_features <= MOST_COLUMNS
    return narrow and source.rereadable and len(found.labels) <= MOST_ROWS


def _assessed(model: Any, source: Source) -> Assessment:
    """What the fit has found of its own rows, and their known classes."""
    sizes = np.bincount(model.labels_, minlength=len(model.cluster_centers_))
    return Assessment(sizes, model.cluster_losses_, model.labels_, source.classes())


def advice(source: Source, chunk: Chunk) -> str | None:
    """Warn of a column that is so much wider than another that it decides alone."""
    if source.feature_names is None:
        return None
    widths = chunk.X[:SAMPLE_ROWS].std(axis=0, dtype=np.float64)
    widest, narrowest = int(widths.argmax()), int(np.where(widths > 0, widths, np.inf).argmin())
    if not widths[widest] > MUCH_WIDER * widths[narrowest] > 0:
        return None
    name = source.feature_names[widest]
    remedy = "--standardize gives all columns the same weight"
    if not name:
        remedy = "it looks like the numbers of the rows: --drop '' leaves it out"
    return (
        f"note: column {name!r} spreads {widths[widest] / widths[narrowest]:,.0f} times as wide as "
        f"{source.feature_names[narrowest]!r} and decides almost alone; {remedy}"
    )


def _summary(model: Any, found: Assessment) -> dict[str, Any]:
    return {
        "kind": type(model).__name__,
        "rows": len(found.labels),
        "features": int(model.n_features_in_),
        "n_clusters": len(model.cluster_centers_),
        "geometry": getattr(model, "geometry", "sphere"),
        "seed": model.random_state,
        "loss": float(model.loss_),
        "iterations": int(model.n_iter_),
        "choice": choice.to_json() if (choice := getattr(model, "choice_", None)) else None,
        "trimmed": int(np.sum(getattr(model, "trimmed_", 0))),
        "metrics": found.metrics(),
        "clusters": describe(model, found.sizes, found.spread),
    }
