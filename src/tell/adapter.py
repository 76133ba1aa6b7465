"""Foreign models under our contract: any fitted k-means that has centres and can predict."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tell.contract import (
    AffineInput,
    ClusterModel,
    Description,
    Floats,
    Ints,
    Reals,
    soft_assignment,
    squared_distances,
)
from tell.exceptions import InputError, ModelFileError
from tell.persistence import SavedModel, save_as

KIND = "KMeansAdapter"


@runtime_checkable
class FittedKMeans(Protocol):
    """What a foreign model needs to be taken in."""

    @property
    def cluster_centers_(self) -> Reals:
        """Centres (k, d)."""
        ...

    def predict(self, X: Reals) -> NDArray[np.integer]:
        """The cluster of each row (n,)."""
        ...


@runtime_checkable
class _Seeded(Protocol):
    """An estimator of scikit-learn: its options can be read, and it can be fitted again."""

    def get_params(self, deep: bool = True) -> dict[str, object]: ...

    def fit(self, X: Reals) -> object: ...


def as_model(model: object) -> ClusterModel:
    """The model itself if it fulfils the contract, else a fitted k-means in an adapter.

    >>> from sklearn.cluster import KMeans
    >>> as_model(KMeans(2, n_init=1).fit([[0.0], [2.0]])).describe().kind
    'KMeans'
    """
    if isinstance(model, ClusterModel):
        return model
    if not isinstance(model, FittedKMeans):
        raise InputError(
            f"model needs `cluster_centers_` and `predict`, got {type(model).__name__} "
            "without them; fit it first, or pass TELL, DeepTELL or a k-means model"
        )
    return KMeansAdapter(model)


@final
class KMeansAdapter:
    """A foreign k-means under the contract of `tell.contract.ClusterModel`.

    `predict` is the foreign model's own; everything else follows from its centres. A saved one
    comes back without the foreign object, and then predicts the nearest centre.
    """

    def __init__(self, model: FittedKMeans) -> None:
        self.model = model
        self.metadata_: dict[str, object] = {}

    @property
    def cluster_centers_(self) -> Reals:
        """Centres (k, d), which are in the data's units."""
        return np.asarray(self.model.cluster_centers_)

    @property
    def n_features_in_(self) -> int:
        """Columns of the data."""
        return int(self.cluster_centers_.shape[1])

    @property
    def input_path(self) -> AffineInput:
        """Columns enter as they are."""
        return AffineInput()

    @property
    def can_decode(self) -> bool:
        """The clustered space is that of the data."""
        return True

    def embed(self, X: Reals) -> Reals:
        """The rows themselves (n, d)."""
        return np.asarray(X)

    def transform(self, X: Reals) -> Floats:
        """Distances to all centres (n, k)."""
        return np.sqrt(self._squared(X))

    def predict(self, X: Reals) -> Ints:
        """What the foreign model answers (n,)."""
        return np.asarray(self.model.predict(X), np.int64)

    def predict_proba(self, X: Reals) -> Floats:
        """Soft assignment (n, k) at the mean loss as temperature: the fit's if known, else X's."""
        squared = self._squared(X)
        loss = self._loss()
        typical = float(squared.min(axis=1).mean()) if loss is None else loss
        return soft_assignment(squared, max(typical, float(np.finfo(np.float64).tiny)))

    def centers_in_units(self) -> Reals:
        """The centres (k, d)."""
        return self.cluster_centers_

    def decode(self, Z: Reals) -> Reals:
        """The points themselves (m, d)."""
        return np.asarray(Z)

    def describe(self) -> Description:
        """What is known of the foreign model."""
        names = getattr(self.model, "feature_names_in_", None)
        k, d = self.cluster_centers_.shape
        return Description(
            kind=_kind(self.model),
            geometry="euclidean",
            n_clusters=k,
            n_features=d,
            input_shape=(d,),
            feature_names=None if names is None else tuple(map(str, names)),
            temperature=0.0,
            settings=_settings(self.model),
            minimised=("clustering",) if self._loss() is not None else (),
            loss=self._loss(),
            sizes=self._sizes(),
        )

    def refit(self, X: Reals, random_state: int) -> KMeansAdapter | None:
        """Fit a copy from another seed; None where the model has no seed to set."""
        if not isinstance(self.model, _Seeded) or "random_state" not in self.model.get_params():
            return None
        from sklearn.base import clone

        return KMeansAdapter(clone(self.model).set_params(random_state=random_state).fit(X))

    def save(
        self, folder: str | os.PathLike[str], metadata: dict[str, object] | None = None
    ) -> None:
        """Write centres and description as a folder; nothing is pickled."""
        import torch

        found = self.describe()
        config = {
            "kind": found.kind,
            "settings": {name: repr(value) for name, value in found.settings.items()},
            "feature_names": found.feature_names,
            "loss": found.loss,
            "metadata": self.metadata_ if metadata is None else metadata,
        }
        tensors = {"centers": torch.from_numpy(np.array(self.cluster_centers_, order="C"))}
        if found.sizes is not None:
            tensors["sizes"] = torch.from_numpy(np.asarray(found.sizes, np.int64))
        save_as(self, folder, SavedModel(KIND, config, tensors))

    @classmethod
    def _from_saved(cls, saved: SavedModel) -> KMeansAdapter:
        try:
            adapter = cls(_Centers(saved))
            adapter.metadata_ = dict(saved.config["metadata"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"model file must describe a k-means, got {type(error).__name__}: {error}; "
                "save it again"
            ) from error
        return adapter

    def _squared(self, X: Reals) -> Floats:
        return squared_distances(np.asarray(X), self.cluster_centers_, "euclidean")

    def _sizes(self) -> Ints | None:
        """Rows of the fit in each cluster (k,)."""
        if isinstance(self.model, _Centers):
            return self.model.sizes
        labels = getattr(self.model, "labels_", None)
        k = len(self.cluster_centers_)
        return None if labels is None else np.bincount(labels, minlength=k).astype(np.int64)

    def _loss(self) -> float | None:
        """Mean squared distance in the fit, from k-means' sum."""
        known = getattr(self.model, "loss_", None)
        total, labels = (getattr(self.model, name, None) for name in ("inertia_", "labels_"))
        if known is None and total is not None and labels is not None:
            known = total / len(labels)
        return None if known is None else float(known)


class _Centers:
    """What is left of a foreign model in a folder: its centres, and what was known of it."""

    def __init__(self, saved: SavedModel) -> None:
        centers = saved.tensors["centers"].numpy()
        if centers.ndim != 2:
            raise ValueError(f"centres of shape {centers.shape}")
        self.cluster_centers_ = centers
        self.kind = str(saved.config["kind"])
        self.settings: dict[str, object] = dict(saved.config["settings"])
        self.loss_ = saved.config["loss"]
        sizes = saved.tensors.get("sizes")
        self.sizes: Ints | None = None if sizes is None else sizes.numpy()
        if saved.config["feature_names"] is not None:
            self.feature_names_in_ = np.array(saved.config["feature_names"], dtype=object)

    def predict(self, X: Reals) -> Ints:
        squared = squared_distances(X, self.cluster_centers_, "euclidean")
        return np.asarray(squared.argmin(axis=1), np.int64)


def _kind(model: FittedKMeans) -> str:
    return model.kind if isinstance(model, _Centers) else type(model).__name__


def _settings(model: FittedKMeans) -> Mapping[str, object]:
    if isinstance(model, _Centers):
        return model.settings
    return model.get_params(deep=False) if isinstance(model, _Seeded) else {}
