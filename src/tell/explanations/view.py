"""One way to look at every fitted model: its centres, and its rows as the centres see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from tell.adapter import as_model
from tell.contract import (
    AffineInput,
    ClusterModel,
    Description,
    EncodedInput,
    Floats,
    GrowingModel,
    InputPath,
    Ints,
    Reals,
    cluster_names,
    squared_distances,
    unit,
    unnamed,
)
from tell.exceptions import InputError
from tell.explanations.matrices import Matrix

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
