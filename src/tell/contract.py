"""What every model here can do, whoever made it: one protocol, its records, one distance.

`TELL` and `DeepTELL` fulfil `ClusterModel` themselves; `tell.adapter` lends it to any fitted
k-means. Commands and explanations know this page and nothing of the classes behind it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tell.exceptions import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from tell.core.layer import Geometry

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Numbers of whatever precision the rows came in.
Reals = NDArray[np.floating]
#: Known classes of rows: numbers, texts, or objects in which None is a gap.
Labels = NDArray[np.generic]
_Answer = TypeVar("_Answer")
#: One entry of a history: epoch, losses, metrics; a text such as the stage's name is no curve.
Record = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class AffineInput:
    """Columns reach the centres through (x − offset) / scale: reasons per column are exact.

    `offset` and `scale` (d,) are None where the model leaves its columns as they are.
    """

    offset: Floats | None = None
    scale: Floats | None = None

    def apply(self, X: Reals) -> Floats:
        """Rows (n, d) as the model scales them, before any unit length."""
        rows = np.asarray(X, np.float64)
        if self.offset is None or self.scale is None:
            return rows
        return (rows - self.offset) / self.scale

    def undo(self, rows: Floats) -> Floats:
        """Scaled rows (n, d) back in the data's own units."""
        if self.offset is None or self.scale is None:
            return rows
        return rows * self.scale + self.offset


@dataclass(frozen=True, eq=False)
class EncodedInput:
    """An encoder stands between the columns and the centres: reasons are attributions.

    Attributes
    ----------
    tensor : rows (n, d) in the data's units as the tensor that the encoder takes
    scores : that tensor as minus the squared distances (n, k), differentiable
    spread : (d,) what one unit of the network's input is worth in the data's units
    encoder, shape, offset, scale : the same as parts: rows take the shape, then
        (x − offset) / scale, then the encoder
    """

    tensor: Callable[[Reals], Tensor]
    scores: Callable[[Tensor], Tensor]
    spread: Floats
    encoder: nn.Module
    shape: tuple[int, ...]
    offset: Floats
    scale: Floats


InputPath = AffineInput | EncodedInput


@dataclass(frozen=True)
class Run:
    """One restart; the run with the smallest clustering loss is chosen."""

    seed: int | None
    loss: float
    n_iter: int | None
    chosen: bool

    @classmethod
    def of(cls, record: Mapping[str, float]) -> Run:
        """A restart as an estimator notes it in `runs_`."""
        seed, n_iter = int(record["seed"]), int(record["n_iter"])
        return cls(seed, float(record["loss"]), n_iter, bool(record["chosen"]))


@dataclass(frozen=True, eq=False)
class Description:
    """What a fitted model says of itself.

    Attributes
    ----------
    kind : name of the class that was fitted
    geometry : "sphere" (rows and centres have unit length) or "euclidean"
    n_features, input_shape : of one row: how many numbers, and how they are laid out
    feature_names : names of the columns, where the data of the fit had some
    temperature : τ of the assignment; 0 keeps the largest entry alone
    assignment_temperature : τ of `predict_proba`; where it is 0 in training, the usual loss of a
        row, so that rows between two clusters show it; None if it depends on the rows asked
    settings : the options it was made with
    minimised : the terms that training brought down at its end, such as "clustering" (the squared
        distance to the own centre) and "reconstruction"; empty where that is not known
    loss : mean squared distance of a row of the fit to its centre, where known
    sizes : (k,) rows behind each centre, where known
    choice : how the number of clusters was chosen, where it was: `Choice.to_json`
    lineage : what became of the clusters of an earlier model, where there was one
    retired : numbers of clusters that take no rows any more
    """

    kind: str
    geometry: Geometry
    n_clusters: int
    n_features: int
    input_shape: tuple[int, ...]
    feature_names: tuple[str, ...] | None
    temperature: float
    settings: Mapping[str, object]
    minimised: tuple[str, ...]
    loss: float | None
    sizes: Reals | Ints | None = None
    assignment_temperature: float | None = None
    runs: tuple[Run, ...] = ()
    history: Sequence[Record] = field(default=(), repr=False)
    choice: Record | None = field(default=None, repr=False)
    lineage: Sequence[Record] = ()
    retired: tuple[int, ...] = ()


@runtime_checkable
class ClusterModel(Protocol):
    """A fitted model: n rows of d columns, k centres in a space of p dimensions."""

    @property
    def cluster_centers_(self) -> Reals:
        """Centres (k, p) in the clustered space: unit vectors on the sphere."""
        ...

    @property
    def input_path(self) -> InputPath:
        """How columns reach the centres: exactly, or through an encoder."""
        ...

    @property
    def can_decode(self) -> bool:
        """Whether `decode` can draw points of the clustered space in the data's units."""
        ...

    def embed(self, X: Reals) -> Reals:
        """Rows where the centres live, (n, p); of unit length on the sphere."""
        ...

    def transform(self, X: Reals) -> Reals:
        """Distances to all centres, (n, k), as scikit-learn's clusterers give them."""
        ...

    def predict(self, X: Reals) -> NDArray[np.integer]:
        """The nearest centre of each row, (n,)."""
        ...

    def predict_proba(self, X: Reals) -> Reals:
        """The attention that each row pays to each centre, (n, k); rows sum to one."""
        ...

    def centers_in_units(self) -> Reals | None:
        """Centres in the shape and the units of the data's rows; None if nothing can draw them.

        On the sphere a centre is a direction, drawn at some length: good for a picture, but no row
        looks like it. What the members look like says `tell.explain`.
        """
        ...

    def decode(self, Z: Reals) -> Reals:
        """Points (m, p) of the clustered space in the shape and the units of the data's rows."""
        ...

    def describe(self) -> Description:
        """What the model is, as a record."""
        ...

    def refit(self, X: Reals, random_state: int) -> ClusterModel | None:
        """A new model with the same settings, fitted to X from this seed; None if it has none."""
        ...

    def save(
        self, folder: str | os.PathLike[str], metadata: dict[str, object] | None = None
    ) -> None:
        """Write the model as a folder that `tell.load` reads."""
        ...


@runtime_checkable
class UpdatableModel(ClusterModel, Protocol):
    """A model that learns from further rows."""

    def partial_fit(self, X: Reals) -> Self:
        """Learn from rows, once."""
        ...


@runtime_checkable
class RejectingModel(ClusterModel, Protocol):
    """A model that knows how far from their centres its rows lie."""

    def predict(self, X: Reals, *, reject: float | None = None) -> NDArray[np.integer]:
        """The nearest centre of each row, (n,); -1 for those that `reject` gives up."""
        ...

    def reject_limits(self, reject: float) -> Reals:
        """Squared distances (k,) to the own centre beyond which rows are given up."""
        ...

    def outlier_score(self, X: Reals) -> Reals:
        """Share (n,) of the fitted rows of its cluster that lie nearer to the centre."""
        ...


@runtime_checkable
class GrowingModel(ClusterModel, Protocol):
    """A model whose clusters may be born and retired."""

    def without_retired(self) -> ClusterModel:
        """A copy without the retired clusters; the others are called by the numbers they had."""
        ...


class TakesSources:
    """A model that takes rows as an open source, too, which spares looking at them again."""


#: Where a model's `metadata_` keeps what people call its clusters.
NAMES = "cluster_names"


def cluster_names(model: object) -> dict[int, str]:
    """What people call the clusters of a model, by number; those without a name are left out.

    >>> from types import SimpleNamespace
    >>> cluster_names(SimpleNamespace(metadata_={"cluster_names": {"2": "Families"}}))
    {2: 'Families'}
    """
    kept = (getattr(model, "metadata_", None) or {}).get(NAMES) or {}
    return {int(number): str(name) for number, name in kept.items()}


class NamedClusters:
    """Clusters that people can name; the names are kept in the model's folder."""

    metadata_: dict[str, object]

    def name_clusters(self, names: Mapping[int, str | None]) -> Self:
        """Call clusters by names, by their numbers: `{2: "Families"}`; None takes a name away.

        They appear in explanations, reports and commands. Another `fit` makes other clusters and
        forgets them.
        """
        k = len(self.cluster_centers_)  # type: ignore[attr-defined] # every model has them
        known = cluster_names(self)
        for number, name in names.items():
            if number not in range(k):
                raise InputError(
                    f"names need clusters from 0 to {k - 1}, got {number}; `tell show` lists them"
                )
            if name is not None and not str(name).strip():
                raise InputError(
                    f"the name of cluster {number} needs at least one letter, got {name!r}; "
                    "pass None to take a name away"
                )
            known[int(number)] = "" if name is None else str(name).strip()
        kept = {str(j): name for j, name in sorted(known.items()) if name}
        self.metadata_ = dict(getattr(self, "metadata_", None) or {}) | {NAMES: kept}
        return self

    def label(self, frame: Any, **options: Any) -> Any:
        """The frame (pandas or polars) with a column `cluster`, and `cluster_name` if any has one.

        Index and other columns are kept as they are. `options` go to `predict`, such as `reject`.

        >>> import pandas as pd
        >>> from tell import TELL
        >>> guests = pd.DataFrame({"age": [8, 9, 41, 40]}, index=["Ida", "Ben", "Eva", "Tom"])
        >>> model = TELL(2, geometry="euclidean", random_state=0).fit(guests)
        >>> _ = model.name_clusters({model.predict(guests)[0]: "Children"})
        >>> model.label(guests)["cluster_name"].to_dict()
        {'Ida': 'Children', 'Ben': 'Children', 'Eva': '', 'Tom': ''}
        """
        if not hasattr(frame, "columns") or not hasattr(frame, "shape"):
            raise InputError(
                f"label needs a frame of pandas or polars, got {type(frame).__name__}; predict "
                "gives the numbers of the clusters for anything else"
            )
        found = self.predict(frame, **options)  # type: ignore[attr-defined] # every model has it
        columns: dict[str, object] = {"cluster": found}
        if names := cluster_names(self):
            columns["cluster_name"] = [names.get(int(number), "") for number in found]
        if hasattr(frame, "assign"):
            return frame.assign(**columns)
        import polars

        return frame.with_columns(polars.Series(name, column) for name, column in columns.items())

    def _forget_names(self) -> None:
        """The clusters of a new fit are others."""
        if cluster_names(self):
            self.metadata_ = {key: kept for key, kept in self.metadata_.items() if key != NAMES}


def squared_distances(rows: Reals, centers: Reals, geometry: Geometry) -> Floats:
    """‖z − Ω_j‖² of rows (n, p) to centres (k, p), right to the last digits: (n, k).

    On the sphere rows may have any length; one of zeros has no direction and is as far from every
    centre as an orthogonal one.

    >>> squared_distances(np.array([[3.0, 4.0]]), np.array([[0.0, 0.0], [3.0, 3.0]]), "euclidean")
    array([[25.,  1.]])
    >>> squared_distances(np.array([[0.0, 5.0], [0.0, 0.0]]), np.array([[1.0, 0.0]]), "sphere")
    array([[2.],
           [2.]])
    """
    import torch

    from tell.core.assignment import DenseRows, exact_distances

    z, omega = np.asarray(rows, np.float64), np.asarray(centers, np.float64)
    if geometry == "euclidean":  # about the centres, or large means cancel the rest
        shift = omega.mean(axis=0)
        z, omega = z - shift, omega - shift
    placed = DenseRows(torch.from_numpy(np.array(z, order="C")))
    found = exact_distances(placed, torch.from_numpy(np.array(omega, order="C")), geometry)
    return np.asarray(found.numpy(), np.float64)


def soft_assignment(squared: Floats, temperature: float) -> Floats:
    """Softmax of minus the squared distances (n, k) over τ > 0 (eq. 7).

    >>> soft_assignment(np.array([[1.0, 1.0]]), 0.5)
    array([[0.5, 0.5]])
    """
    scores = np.exp(-(squared - squared.min(axis=1, keepdims=True)) / temperature)
    return np.asarray(scores / scores.sum(axis=1, keepdims=True))


def unit(rows: Reals) -> Floats:
    """Give every row unit length; a row of zeros has no direction and stays as it is."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0), np.float64)


def unnamed(ask: Callable[[Reals], _Answer], X: Reals) -> _Answer:
    """Ask a model about rows whose columns are in its order, only not named."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return ask(X)
