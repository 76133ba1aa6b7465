"""A model in a folder that answers: what the service does, without HTTP."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tell.contract import AffineInput, UpdatableModel, cluster_names
from tell.data.arrays import ArraySource
from tell.data.chunks import Chunk
from tell.estimators import load
from tell.estimators.tell import TELL
from tell.exceptions import InputError, ParameterError, TellWarning
from tell.explanations.points import PointFacts
from tell.explanations.single_row import explain_row, live_numbers
from tell.persistence import JOURNAL
from tell.runtime.answers import Columns, assignments
from tell.runtime.journal import Journal, rows_seen
from tell.runtime.model_rows import feature_names
from tell.serving.bodies import JSON, RowLimits, RowReader, matrix, parse_json

SMALL = 1 << 16  # bytes of a body that is read and answered at once, without another thread

Json = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """What a caller asks of /predict beside the clusters."""

    proba: bool = False
    distances: bool = False
    reject: float | None = None

    @property
    def labels_only(self) -> bool:
        return not self.proba and not self.distances and self.reject is None


@dataclass(frozen=True)
class Served:
    """A model as it is being served, the reader of its rows, and the file it came from."""

    model: Any
    reader: RowReader
    file: tuple[int, ...] = ()

    @property
    def is_quick(self) -> bool:
        """Whether a few rows take so little time that nobody else has to wait for it."""
        return isinstance(self.model, TELL)


class Service:
    """Answers questions about rows by the model in a folder.

    Work on rows is done by one thread at a time (`turn`): it is bound by the interpreter anyway,
    and warnings, which Python keeps for the whole process, stay with the rows they are about. A few
    plain numbers (`quick_labels`) need no turn.

    Parameters
    ----------
    folder : Path
    limits : RowLimits
    trust : bool
        Whether the folder may name code.
    """

    def __init__(self, folder: Path, limits: RowLimits, *, trust: bool = False) -> None:
        self.folder, self.limits, self.trust = folder, limits, trust
        self.turn = threading.Lock()
        self.version = 0  # grows with every change that the page shows
        self._noted = _identity(folder / JOURNAL)
        self.served = self._load()

    @property
    def model(self) -> Any:
        """The model that answers now."""
        return self.served.model

    def adopt(self, model: Any) -> None:
        """Answer by this model from now on."""
        reader = self.served.reader
        if model is not self.served.model:
            reader = RowReader(model, self.limits)
        self.served = Served(model, reader, self._file())
        self.version += 1

    def refresh(self) -> bool:
        """Take in what another process has saved since; say whether it was another model."""
        if (noted := _identity(self.folder / JOURNAL)) != self._noted:
            self._noted = noted
            self.version += 1
        if self._file() == self.served.file:
            return False
        self.served = self._load()
        self.version += 1
        return True

    def _load(self) -> Served:
        file = self._file()
        model = load(self.folder, trust=self.trust)
        return Served(model, RowReader(model, self.limits), file)

    def _file(self) -> tuple[int, ...]:
        return _identity(self.folder / "model.json")

    # --- answers ------------------------------------------------------------------------------

    def quick_labels(self, body: bytes, kind: str, wanted: Wanted) -> Json | None:
        """Clusters of a few rows of plain numbers; None where there is more to do."""
        served = self.served
        if kind != JSON or len(body) > SMALL or not (wanted.labels_only and served.is_quick):
            return None
        chunk = served.reader.numbers(parse_json(body))
        if chunk is None or np.isnan(chunk.X).any():
            return None
        labels = served.model.predict(ArraySource(chunk.X)).tolist()
        names = cluster_names(served.model)
        found: Json = {"cluster": labels}
        if names:
            found["cluster_name"] = [names.get(label, "") for label in labels]
        return found

    def predict(self, body: bytes, kind: str, wanted: Wanted) -> tuple[Columns, list[str]]:
        """The columns of a label file for the rows of a body, and what to know about them."""
        served = self.served
        if wanted.reject is not None and not isinstance(served.model, TELL):
            raise ParameterError(
                "reject needs a model of tell fit without --deep; leave it out of the request"
            )
        with self.turn, _noted() as notes:
            X = matrix(served.reader.read(body, kind))
            found = assignments(
                served.model,
                X,
                proba=wanted.proba,
                distances=wanted.distances,
                reject=wanted.reject,
            )
        return found, notes

    def explain(
        self, body: bytes, kind: str
    ) -> tuple[PointFacts, list[int], dict[int, str], list[str]]:
        """Why the one row of a body is where it is; numbers and names of the clusters; notes."""
        served = self.served
        with self.turn, _noted() as notes:
            chunks = served.reader.read(body, kind)
            rows = sum(map(len, chunks))
            if rows != 1:
                raise InputError(f"body needs exactly one row to explain, got {rows:,}")
            (chunk,) = chunks
            if np.isnan(chunk.X).any():
                raise InputError(
                    "body: row 0 has a gap, and the model leaves such rows out; give all values"
                )
            filled = None if chunk.filled is None else chunk.filled[0]
            point = explain_row(served.model, chunk.X[0], filled)
        return point, live_numbers(served.model), cluster_names(served.model), notes

    def read_rows(self, body: bytes, kind: str) -> tuple[list[Chunk], list[str]]:
        """The rows of a body, to be learned."""
        with self.turn, _noted() as notes:
            chunks = self.served.reader.read(body, kind)
        return chunks, notes

    # --- facts --------------------------------------------------------------------------------

    def describe(self) -> Json:
        """What the model is."""
        model, reader = self.served.model, self.served.reader
        about = model.describe()
        return {
            "kind": about.kind,
            "geometry": about.geometry,
            "n_clusters": about.n_clusters,
            "columns": reader.columns,
            "n_features": about.n_features,
            "rows_seen": rows_seen(model),
            "loss": about.loss,
            "can_learn": isinstance(model, UpdatableModel),
            "can_reject": isinstance(model, TELL),
            "exact_reasons": isinstance(model.input_path, AffineInput),
        }

    def clusters(self) -> Json:
        """One entry per cluster: name, rows, and the centre in the data's units; names of these."""
        model = self.served.model
        about, names = model.describe(), cluster_names(model)
        sizes = np.zeros(about.n_clusters) if about.sizes is None else np.asarray(about.sizes)
        total = float(sizes.sum()) or 1.0
        on_sphere = about.geometry == "sphere"
        drawn = model.cluster_centers_ if on_sphere else model.centers_in_units()
        clusters = [
            {
                "cluster": j,
                "name": names.get(j),
                "rows": float(sizes[j]),
                "share": float(sizes[j]) / total,
                "retired": j in about.retired,
                "direction" if on_sphere else "center": _as_lists(drawn, j),
            }
            for j in range(about.n_clusters)
        ]
        features = feature_names(model)
        named = drawn is not None and features is not None and drawn.shape[1] == len(features)
        return {"features": features if named else None, "clusters": clusters}

    def journal(self) -> Journal:
        """What was noted of the stream."""
        return Journal.read(self.folder)


def _identity(file: Path) -> tuple[int, ...]:
    """What tells one version of a file from another."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def check_learns(service: Service) -> None:
    """Refuse to learn into a model that cannot."""
    if not isinstance(service.model, UpdatableModel):
        raise ParameterError(
            "--learn needs a model of tell fit, got a k-means that was fitted elsewhere; fit a "
            "new model"
        )


def _as_lists(drawn: Any, j: int) -> list[float] | None:
    return None if drawn is None else np.asarray(drawn[j], np.float64).ravel().tolist()


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Collect what is to be known about rows, such as texts that the model never saw."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", TellWarning)
        yield notes
    notes += dict.fromkeys(str(warning.message) for warning in caught)
