"""One way to look at every fitted model: its centres, and rows with their place among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tell.adapter import FittedKMeans, as_model, is_pipeline, model_of_labels
from tell.contract import (
    AffineInput,
    ClusterModel,
    Description,
    EncodedInput,
    Floats,
    GrowingModel,
    InputPath,
    Ints,
    Labels,
    Reals,
    cluster_names,
    squared_distances,
    unit,
    unnamed,
)
from tell.exceptions import InputError
from tell.explanations.explained_rows import Block, Rows
from tell.explanations.matrices import Matrix, cluster_sums, stacked

if TYPE_CHECKING:
    from tell.core.layer import Geometry

__all__ = ["AffineInput", "EncodedInput", "Floats", "Ints", "ModelView", "Reals", "unit"]

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, eq=False)
class ModelView:
    """A model in double precision, for explanations.

    Attributes
    ----------
    model : the fitted model
    about : what it says of itself
    path : how columns reach the centres: exactly, or through an encoder
    centers : (k, p), the centres Ω in the space of the layer
    names : what people call some of the clusters
    """

    model: ClusterModel
    about: Description
    path: InputPath
    centers: Floats
    names: Mapping[int, str] = field(default_factory=dict)

    def called(self, j: int) -> str:
        """What people call a cluster: its name, or its number."""
        return self.names.get(j, f"cluster {j}")

    @property
    def geometry(self) -> Geometry:
        return self.about.geometry

    @property
    def n_clusters(self) -> int:
        return len(self.centers)

    @property
    def on_sphere(self) -> bool:
        return self.geometry == "sphere"

    @property
    def temperature(self) -> float:
        """τ of the assignment; 0 keeps the largest entry alone."""
        return self.about.temperature

    def predict(self, X: Matrix) -> Ints:
        """What the model itself answers for rows (n, d), in the precision of its fit."""
        return np.asarray(self.ask(self.model.predict, X), np.int64)

    def ask(self, question: Callable[[Reals], _Answer], X: Matrix) -> _Answer:
        """What the model answers for rows whose columns are in its order, only not named."""
        rows = X.astype(np.asarray(self.model.cluster_centers_).dtype, copy=False)
        return unnamed(question, rows)

    def layer_rows(self, X: ArrayLike) -> Floats:
        """Rows as the layer compares them with its centres: embedded; unit length on the sphere."""
        rows = np.asarray(unnamed(self.model.embed, np.asarray(X, np.float64)), np.float64)
        return unit(rows) if self.on_sphere else rows

    def placed(self, X: Matrix) -> Matrix:
        """As `layer_rows`; sparse rows stay sparse."""
        if not sparse.issparse(X):
            return self.layer_rows(X)
        wide = X.astype(np.float64)
        if not self.on_sphere:
            return wide
        lengths = np.sqrt(np.asarray(wide.multiply(wide).sum(axis=1)).ravel())
        return sparse.csr_array(sparse.diags_array(1 / np.where(lengths > 0, lengths, 1)) @ wide)

    def squared_distances(self, Z: Floats) -> Floats:
        """‖z − Ω_j‖² = β − W_jᵀz − b_j for layer rows (n, p): shape (n, k)."""
        return squared_distances(Z, self.centers, self.geometry)

    def distances(self, X: Matrix) -> Floats:
        """Squared distances of rows as the data has them to all centres: (n, k).

        Sparse rows are neither scaled nor made dense.
        """
        if not sparse.issparse(X):
            return self.squared_distances(self.layer_rows(X))
        wide = X.astype(np.float64)
        lengths = np.asarray(wide.multiply(wide).sum(axis=1)).ravel()
        products = np.asarray(wide @ self.centers.T)
        if self.on_sphere:
            cosines = products / np.sqrt(np.where(lengths > 0, lengths, 1.0))[:, None]
            return np.maximum(2 - 2 * cosines, 0.0)
        squares = np.einsum("ij,ij->i", self.centers, self.centers)
        return np.maximum(lengths[:, None] - 2 * products + squares, 0.0)

    def weight_and_bias(self) -> tuple[Floats, Floats]:
        """W = 2Ω of shape (k, p) and b = −‖Ω‖² of shape (k,)."""
        if self.on_sphere:  # b is constant there: equal distances stay exactly equal
            return 2 * self.centers, -np.ones(self.n_clusters)
        return 2 * self.centers, -np.einsum("ij,ij->i", self.centers, self.centers)

    def check_columns(self, n_features: int) -> None:
        """Refuse rows with another number of columns than the model was fitted with."""
        if n_features != self.about.n_features:
            raise InputError(
                f"X needs {self.about.n_features} columns as in fit, got {n_features}; "
                "give the columns the model was fitted with"
            )


def view_model(model: object) -> ModelView:
    """Look at a fitted `TELL`, `DeepTELL`, or any model with `cluster_centers_` and `predict`."""
    known = as_model(model)
    about = known.describe()
    if about.retired and isinstance(known, GrowingModel):
        known = known.without_retired()  # a place for each that takes rows
        about = known.describe()
    centers = np.asarray(known.cluster_centers_, np.float64)
    centers = unit(centers) if about.geometry == "sphere" else centers
    return ModelView(known, about, known.input_path, centers, cluster_names(known))


def feature_names(
    about: Description, given: Sequence[str] | None, n_features: int, shape: tuple[int, ...] | None
) -> tuple[str, ...]:
    """Names of the columns: those given, those the model was fitted with, or made-up ones."""
    names = given if given is not None else about.feature_names
    if names is not None:
        if len(names) != n_features:
            raise InputError(
                f"feature_names needs one name per column ({n_features}), got {len(names)}; "
                "pass all names in the order of the columns"
            )
        return tuple(str(name) for name in names)
    if shape is not None:
        return tuple("pixel " + ", ".join(map(str, index)) for index in np.ndindex(*shape))
    return tuple(f"feature {index}" for index in range(n_features))


@dataclass(frozen=True, eq=False)
class Assigned:
    """Rows with their place among the centres; every array has one entry per row.

    `filled` (n, d) marks values that stand for a gap of the table.
    """

    rows: Ints
    X: Matrix
    y: Labels | None
    labels: Ints
    runner_up: Ints
    distance: Floats
    margin: Floats
    clearness: Floats
    filled: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: ArrayLike) -> Assigned:
        """The rows at `index`, in that order."""
        rows = np.asarray(index, np.intp)
        return replace(self, **{name: part[rows] for name, part in self._parts()})

    def join(self, other: Assigned) -> Assigned:
        """These rows followed by those."""
        joined = ((name, [part, getattr(other, name)]) for name, part in self._parts())
        return replace(self, **{name: stacked(pair) for name, pair in joined})

    def relative_to(self, reach: Floats) -> Assigned:
        """The same rows with clearness relative to `reach` (k,): 1 where the mean member lies."""
        return replace(self, clearness=np.minimum(self.clearness / reach[self.labels], 1.0))

    def _parts(self) -> Iterator[tuple[str, Any]]:
        for part in fields(self):
            if getattr(self, part.name) is not None:
                yield part.name, getattr(self, part.name)


def assign(view: ModelView, block: Block) -> Assigned:
    """Place the rows of a block among the centres.

    The margin is ‖x − Ω_k‖² − ‖x − Ω_j‖² between own centre j and runner-up k; clearness is
    margin / ‖Ω_j − Ω_k‖², the distance to the boundary relative to that of the centre: 0 on the
    boundary, 1 at the centre and beyond. Columns in which the centres agree do not change it.
    On the sphere noise keeps all rows far from the centre: there `relative_to` takes over.
    Where clusters are given, a row may be nearer to another centre: its margin is below 0 then.
    """
    squared = view.distances(block.X)
    order = np.argsort(squared, axis=1, kind="stable")
    here = np.arange(len(squared))
    own, next_best = order[:, 0], order[:, min(1, view.n_clusters - 1)]
    if block.given is not None:
        nearest, own = own, block.given
        next_best = np.where(nearest == own, next_best, nearest)
    near, far = squared[here, own], squared[here, next_best]
    apart = view.squared_distances(view.centers)[own, next_best]
    clear = np.divide(far - near, apart, out=np.zeros_like(near), where=apart > 0)
    return Assigned(
        rows=block.numbers,
        X=block.X,
        y=block.y,
        labels=own,
        runner_up=next_best,
        distance=np.sqrt(near),
        margin=far - near,
        clearness=np.clip(clear, 0.0, 1.0),
        filled=block.filled,
    )


NOISE = "noise"


def labels_of(model: Any, X: Any) -> NDArray[Any] | None:
    """Labels of the rows, where `model` is nothing else or has no centres; None for other models.

    A mixture predicts them; clusterers without a centre, such as HDBSCAN, keep those of their fit.
    """
    if isinstance(model, ClusterModel | FittedKMeans) or is_pipeline(model):
        return None
    if hasattr(model, "fit") and not isinstance(model, type):
        if hasattr(model, "means_") and hasattr(model, "predict"):  # a mixture, when fitted
            return np.asarray(model.predict(X))
        return None if not hasattr(model, "labels_") else np.asarray(model.labels_)
    if isinstance(model, np.ndarray | list | tuple) or hasattr(model, "to_numpy"):
        return np.asarray(model)
    return None


def kind_of(model: Any) -> str:
    """What the labels came from."""
    return type(model).__name__ if hasattr(model, "fit") else "labels"


def number_labels(labels: NDArray[Any]) -> tuple[Ints, list[str]]:
    """Numbers (n,) of the clusters from 0, and what their labels were called; -1 is noise.

    >>> number_labels(np.array([3, -1, 3]))
    (array([1, 0, 1]), ['noise', 'cluster 3'])
    >>> number_labels(np.array(["b", "a"]))
    (array([1, 0]), ['a', 'b'])
    """
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iubUSO":
        raise InputError(
            f"labels need one whole number or text per row, got an array of shape {labels.shape} "
            f"and type {labels.dtype}; pass the labels of the rows, such as model.labels_"
        )
    values, numbers = np.unique(labels, return_inverse=True)
    whole = labels.dtype.kind in "iu"
    names = [NOISE if whole and v == -1 else f"cluster {v}" if whole else str(v) for v in values]
    return numbers.astype(np.int64), names


def model_of_rows(rows: Rows, numbers: Ints, names: list[str], kind: str) -> ClusterModel:
    """Read all rows once for the means of their clusters."""
    k = len(names)
    sizes = np.bincount(numbers, minlength=k)
    sums, squares = np.zeros((k, rows.n_features)), 0.0
    for block in rows.blocks():
        part = cluster_sums(block.X, numbers[block.numbers], k, np.zeros(rows.n_features))
        sums += part[0]
        squares += float(part[1].sum())
    means = sums / sizes[:, None]
    within = (squares - float(np.sum(sizes[:, None] * means**2))) / len(numbers)
    same = [name == f"cluster {j}" for j, name in enumerate(names)]
    return model_of_labels(means, sizes, max(within, 0.0), [] if all(same) else names, kind)
