"""What a fitted `TELL` shows of itself: everything is derived from one state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tell.core.layer import ClusterLayer, Geometry
from tell.core.stream import StreamState
from tell.data.sources import Source
from tell.estimators._base import NotFittedError
from tell.estimators._rows import Floats, Scaling
from tell.exceptions import InputError


class Learned:
    """The learned attributes of `TELL`."""

    n_clusters: int
    geometry: Geometry
    temperature: float
    device: str
    standardize: bool
    n_features_in_: int
    _state: StreamState
    _scaling: Scaling
    _pending: list[tuple[Any, Floats | None]]
    _seed: int

    def _fitted_state(self) -> StreamState:
        if hasattr(self, "_state"):
            return self._state
        rows = sum(X.shape[0] for X, _ in getattr(self, "_pending", []))
        seen = f" and has seen {rows} of the {self.n_clusters} rows it needs" if rows else ""
        raise NotFittedError(
            f"this {type(self).__name__} is not fitted yet{seen}; call fit or partial_fit first"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    @property
    def cluster_centers_(self) -> Floats:
        """Centres in the clustered space, of shape (k, d)."""
        centers = self._state.centers.cpu().numpy()
        if self._scaling.scale is None and self._scaling.offset is not None:
            return (centers + self._scaling.offset).astype(centers.dtype)
        return centers.copy()

    @property
    def layer_(self) -> ClusterLayer:
        """The centres as a torch module, ready to be put behind a network."""
        centers = torch.from_numpy(self.cluster_centers_)
        k, d = centers.shape
        with torch.random.fork_rng(devices=[]):  # what a new layer draws is overwritten at once
            layer = ClusterLayer(
                d, k, geometry=self.geometry, temperature=self.temperature, dtype=centers.dtype
            )
        layer.set_centers_(centers)
        return layer.to(self.device)

    @property
    def cluster_sizes_(self) -> Floats:
        """Rows, or their weight, behind each centre."""
        return self._state.memory.counts.cpu().numpy().copy()

    @property
    def center_lengths_(self) -> Floats:
        """Mean length of each cluster's rows before they get unit length."""
        counts = self._state.memory.counts
        return (self._state.lengths / torch.where(counts > 0, counts, 1)).cpu().numpy()

    @property
    def mean_(self) -> Floats | None:
        """Column means of the scaler."""
        self._state  # noqa: B018 (an unfitted model has no such attribute)
        return self._scaling.offset if self.standardize else None

    @property
    def scale_(self) -> Floats | None:
        """Column deviations of the scaler."""
        return self._scaling.scale

    @property
    def n_seen_(self) -> int:
        """Rows learned from in all, by `fit` and `partial_fit`."""
        return round(self._state.seen)

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters

    def centers_in_units(self) -> Floats:
        """Centres of shape (k, d) in the units of the data.

        A direction has no length: on the sphere it is shown at the mean length of its rows.
        """
        centers = self._fitted_state().centers.cpu().numpy().astype(np.float64)
        if self.geometry == "sphere":
            centers = centers * self.center_lengths_[:, None]
        return self._scaling.undo(centers)

    def _take_columns(self, source: Source) -> None:
        """Keep how many columns a file has and what they are called."""
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        else:
            vars(self).pop("feature_names_in_", None)

    def _check_columns(self, source: Source) -> None:
        if source.n_features != self.n_features_in_:
            raise InputError(
                f"{source.name} must have {self.n_features_in_} columns as the model was fitted "
                f"with, got {source.n_features}; choose the columns"
            )
        names = getattr(self, "feature_names_in_", None)
        if names is not None and source.feature_names not in (None, list(names)):
            raise InputError(
                f"{source.name} must have the columns {', '.join(map(str, names[:5]))}… in this "
                "order, as the model was fitted with; choose them by name"
            )
