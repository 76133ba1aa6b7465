"""One way to look at every fitted model: its centres, and its rows as the centres see them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tell.exceptions import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal["tell", "deep", "other"]


@dataclass(frozen=True, eq=False)
class ModelView:
    """What explanations need of a model with `cluster_centers_` and `predict`.

    Attributes
    ----------
    model : the fitted estimator itself
    kind : "tell" (features as they are), "deep" (an encoder in front) or "other"
    geometry : "sphere" (rows and centres have unit length) or "euclidean"
    centers : (k, p), the centres Ω in the space of the layer
    mean, scale : (d,) or None, what the model subtracts from and divides its columns by
    temperature : τ of the assignment; 0 keeps the largest entry alone
    """

    model: Any
    kind: Kind
    geometry: str
    centers: Floats
    mean: Floats | None
    scale: Floats | None
    temperature: float

    @property
    def n_clusters(self) -> int:
        return len(self.centers)

    @property
    def on_sphere(self) -> bool:
        return self.geometry == "sphere"

    def scaled(self, X: ArrayLike) -> Floats:
        """Rows (n, d) after the model's own scaler; for a deep model, their embedding (n, p)."""
        if self.kind == "deep":
            return np.asarray(self._ask("transform", np.asarray(X, np.float32)), np.float64)
        rows = np.asarray(X, np.float64)
        if self.mean is not None and self.scale is not None:
            rows = (rows - self.mean) / self.scale
        return rows

    def predict(self, X: NDArray[Any]) -> Ints:
        """What the model itself answers for rows (n, d)."""
        dtype = np.asarray(self.model.cluster_centers_).dtype  # k-means insists on that of its fit
        return np.asarray(self._ask("predict", X.astype(dtype, copy=False)), np.int64)

    def _ask(self, method: str, X: NDArray[Any]) -> Any:
        with warnings.catch_warnings():  # columns are in the model's order here, only not named
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return getattr(self.model, method)(X)

    def unscaled(self, rows: Floats) -> Floats:
        """Undo the scaler: rows (n, d) back in the data's own units."""
        if self.mean is not None and self.scale is not None:
            return rows * self.scale + self.mean
        return rows

    def layer_rows(self, X: ArrayLike) -> Floats:
        """Rows as the layer compares them with its centres: scaled; unit length on the sphere."""
        rows = self.scaled(X)
        return unit(rows) if self.on_sphere else rows

    def squared_distances(self, Z: Floats) -> Floats:
        """‖z − Ω_j‖² = β − W_jᵀz − b_j for layer rows (n, p): shape (n, k)."""
        if self.on_sphere:
            # A row of zeros has no direction: as far from every centre as an orthogonal one.
            return np.maximum(2 - 2 * (Z @ self.centers.T), 0.0)
        shift = self.centers.mean(axis=0)  # about the centres, or large means cancel the rest
        Z, centers = Z - shift, self.centers - shift
        beta = np.einsum("ij,ij->i", Z, Z)[:, None]
        bias = np.einsum("ij,ij->i", centers, centers)
        return np.maximum(beta - 2 * (Z @ centers.T) + bias, 0.0)

    def weight_and_bias(self) -> tuple[Floats, Floats]:
        """W = 2Ω of shape (k, p) and b = −‖Ω‖² of shape (k,)."""
        if self.on_sphere:  # b is constant there: equal distances stay exactly equal
            return 2 * self.centers, -np.ones(self.n_clusters)
        return 2 * self.centers, -np.einsum("ij,ij->i", self.centers, self.centers)

    def check_columns(self, n_features: int) -> None:
        """Refuse rows with another number of columns than the model was fitted with."""
        needed = getattr(self.model, "n_features_in_", self.centers.shape[1])
        if n_features != needed:
            raise InputError(
                f"X needs {needed} columns as in fit, got {n_features}; "
                "give the columns the model was fitted with"
            )


def view_model(model: Any) -> ModelView:
    """Read a fitted `TELL`, `DeepTELL`, or any model with `cluster_centers_` and `predict`."""
    centers = getattr(model, "cluster_centers_", None)
    if centers is None or not hasattr(model, "predict"):
        raise InputError(
            f"model needs `cluster_centers_` and `predict`, got {type(model).__name__} "
            "without them; fit it first, or pass TELL, DeepTELL or a k-means model"
        )
    kind: Kind = "other"
    if hasattr(model, "layer_"):
        kind = "deep" if hasattr(model, "encoder_") else "tell"
    geometry = str(model.layer_.geometry) if kind != "other" else "euclidean"
    centers = np.asarray(centers, np.float64)
    return ModelView(
        model=model,
        kind=kind,
        geometry=geometry,
        centers=unit(centers) if geometry == "sphere" else centers,
        mean=_floats_or_none(getattr(model, "mean_", None)) if kind == "tell" else None,
        scale=_floats_or_none(getattr(model, "scale_", None)) if kind == "tell" else None,
        temperature=float(getattr(model, "temperature", 0.0) or 0.0),
    )


def unit(rows: Floats) -> Floats:
    """Give every row unit length; a row of zeros has no direction and stays as it is."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0))


def feature_names(
    model: Any, given: Sequence[str] | None, n_features: int, shape: tuple[int, ...] | None
) -> tuple[str, ...]:
    """Names of the columns: those given, those the model was fitted with, or made-up ones."""
    names = given if given is not None else getattr(model, "feature_names_in_", None)
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


def _floats_or_none(values: ArrayLike | None) -> Floats | None:
    return None if values is None else np.asarray(values, np.float64)
