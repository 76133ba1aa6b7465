"""Foreign models under our contract: a fitted k-means, a pipeline with one, plain labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tell.contract import (
    NAMES,
    AffineInput,
    ClusterModel,
    Description,
    Floats,
    InputPath,
    Ints,
    NamedClusters,
    Reals,
    soft_assignment,
    squared_distances,
)
from tell.exceptions import InputError, ModelFileError
from tell.export.methods import Exportable
from tell.persistence import SavedModel, save_as


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


def as_model(model: Any) -> ClusterModel:
    """The model itself if it fulfils the contract, else a fitted k-means or pipeline in an adapter.

    >>> from sklearn.cluster import KMeans
    >>> as_model(KMeans(2, n_init=1).fit([[0.0], [2.0]])).describe().kind
    'KMeans'
    """
    if isinstance(model, ClusterModel):
        return model
    if is_pipeline(model):
        scalers = [step for _, step in model.steps[:-1]]
        return PipelineModel(scalers, as_model(model.steps[-1][1]), _names_of(model))
    if not isinstance(model, FittedKMeans):
        raise InputError(
            f"model needs `cluster_centers_` and `predict`, got {type(model).__name__} "
            "without them; fit it first, or pass TELL, DeepTELL, a k-means model, a Pipeline that "
            "ends in one, or the labels of the rows"
        )
    return KMeansAdapter(model)


@final
class KMeansAdapter(Exportable, NamedClusters):
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
            assignment_temperature=self._loss() or None,
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
        save_as(self, folder, SavedModel("KMeansAdapter", config, tensors))

    @classmethod
    def _from_saved(cls, saved: SavedModel) -> KMeansAdapter:
        try:
            adapter = cls(_Centers.of(saved))
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
    """Centres, and what is known of the clusters around them, without the model that found them."""

    def __init__(
        self,
        centers: Reals,
        kind: str,
        *,
        settings: Mapping[str, object] | None = None,
        loss: float | None = None,
        sizes: Ints | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        if centers.ndim != 2:
            raise ValueError(f"centres of shape {centers.shape}")
        self.cluster_centers_ = centers
        self.kind, self.settings, self.loss_, self.sizes = kind, settings or {}, loss, sizes
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    @classmethod
    def of(cls, saved: SavedModel) -> _Centers:
        """What is left of a foreign model in a folder."""
        config, sizes = saved.config, saved.tensors.get("sizes")
        return cls(
            saved.tensors["centers"].numpy(),
            str(config["kind"]),
            settings=dict(config["settings"]),
            loss=config["loss"],
            sizes=None if sizes is None else sizes.numpy(),
            names=config["feature_names"],
        )

    def predict(self, X: Reals) -> Ints:
        squared = squared_distances(X, self.cluster_centers_, "euclidean")
        return np.asarray(squared.argmin(axis=1), np.int64)


def _kind(model: FittedKMeans) -> str:
    return model.kind if isinstance(model, _Centers) else type(model).__name__


def _settings(model: FittedKMeans) -> Mapping[str, object]:
    if isinstance(model, _Centers):
        return model.settings
    return model.get_params(deep=False) if isinstance(model, _Seeded) else {}


def model_of_labels(
    means: Floats, sizes: Ints, loss: float, names: Sequence[str], kind: str
) -> KMeansAdapter:
    """Clusters of plain labels under the contract: their centres are their rows' means (k, d).

    Nothing is known of how the labels came about; `predict` gives the nearest mean, and `names` are
    what the labels were called.
    """
    model = KMeansAdapter(_Centers(means, kind, loss=loss, sizes=sizes))
    model.metadata_ = {NAMES: {str(j): name for j, name in enumerate(names)}}
    return model


def is_pipeline(model: object) -> bool:
    """Whether this is scikit-learn's chain of transformers and one model at its end."""
    return hasattr(model, "steps") and hasattr(model, "named_steps")


def _names_of(model: object) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def affine_step(step: Any) -> AffineInput | None:
    """What a scaler of scikit-learn does to every column; None if it does anything else.

    >>> from sklearn.preprocessing import MinMaxScaler
    >>> scaler = affine_step(MinMaxScaler().fit([[2.0], [6.0]]))
    >>> scaler.offset, scaler.scale
    (array([2.]), array([4.]))
    """
    if step is None or step == "passthrough":
        return AffineInput()
    if isinstance(step, Weighing):
        return AffineInput(step.offset, step.scale)
    kind = type(step).__name__
    if kind in ("StandardScaler", "RobustScaler", "MaxAbsScaler"):
        offset = getattr(step, "mean_" if kind == "StandardScaler" else "center_", None)
        scale = step.scale_
        known = offset if offset is not None else scale
        if known is None:
            return AffineInput()
        one = np.ones(len(known))
        centred = getattr(step, "with_mean", getattr(step, "with_centering", False))
        kept_offset = offset if offset is not None and centred else 0 * one
        return AffineInput(np.asarray(kept_offset), one if scale is None else np.asarray(scale))
    if kind == "MinMaxScaler" and not step.clip:
        return AffineInput(-step.min_ / step.scale_, 1 / step.scale_)
    return None


@dataclass(frozen=True, eq=False)
class Weighing:
    """The second half of a preparation of tables: its features, brought to weights that compare."""

    offset: Floats
    scale: Floats

    def transform(self, X: Reals) -> Floats:
        """Features (n, d) as the preparation itself gives them."""
        return np.asarray((X - self.offset) / self.scale)


def _unprepared(pipeline: Any, X: Any) -> tuple[Any, Any]:
    """A pipeline that begins with a preparation of tables: what weighs its features, and these.

    They keep what the preparation knows of their columns, so that reasons are told by these.
    """
    from sklearn.pipeline import Pipeline

    from tell.data.prepared_tables import open_prepared
    from tell.data.table_preparation import TablePreparation

    first = pipeline.steps[0][1]
    if not isinstance(first, TablePreparation):
        return pipeline, X
    learned = first.preparation_
    weighing = ("weigh", Weighing(learned.offset, learned.scale))
    return Pipeline([weighing, *pipeline.steps[1:]]), open_prepared(X, learned)


def unchained(pipeline: Any, X: Any, *, scale: bool) -> tuple[object, Any, Sequence[str] | None]:
    """A pipeline without the steps that do more than scale columns; X and names behind these.

    What words and components a vectoriser or a projection makes is what can be explained. With
    `scale` False all steps are taken, for rows that must stay sparse.
    """
    from sklearn.pipeline import Pipeline

    pipeline, X = _unprepared(pipeline, X)
    steps = pipeline.steps[:-1]
    further = [i for i, (_, step) in enumerate(steps) if not scale or affine_step(step) is None]
    if not further:
        return pipeline, X, None
    first, rest = steps[: further[-1] + 1], pipeline.steps[further[-1] + 1 :]
    head = Pipeline(first)
    try:
        names = [str(name) for name in head.get_feature_names_out()]
    except (AttributeError, NotImplementedError, ValueError):
        names = None
    return (rest[0][1] if len(rest) == 1 else Pipeline(rest)), head.transform(X), names


@final
class PipelineModel(NamedClusters):
    """Scalers and the model behind them under the contract: reasons are in the rows' own units."""

    def __init__(
        self, scalers: Sequence[Any], inner: ClusterModel, names: tuple[str, ...] | None
    ) -> None:
        self.scalers, self.inner, self._names = list(scalers), inner, names
        self.metadata_ = dict(getattr(inner, "metadata_", None) or {})
        steps = [affine_step(step) for step in self.scalers]
        for step, found in zip(self.scalers, steps, strict=True):
            if found is None:
                raise InputError(
                    f"a Pipeline needs scalers before its model, got {type(step).__name__}; pass "
                    "the model and the rows as that step gives them"
                )
        self._affine = _composed([step for step in steps if step is not None])

    @property
    def cluster_centers_(self) -> Reals:
        """Centres (k, p) of the model."""
        return self.inner.cluster_centers_

    @property
    def input_path(self) -> InputPath:
        """The scalers, then the model's own way."""
        path = self.inner.input_path
        if isinstance(path, AffineInput):
            return _composed([self._affine, path])
        flat = [np.broadcast_to(part, path.shape).ravel() for part in (path.offset, path.scale)]
        whole = _composed([self._affine, AffineInput(*flat)])
        scale = 1.0 if self._affine.scale is None else self._affine.scale
        return replace(
            path,
            tensor=lambda X: path.tensor(self._affine.apply(X)),
            spread=path.spread * scale,
            offset=np.reshape(np.asarray(whole.offset), path.shape),
            scale=np.reshape(np.asarray(whole.scale), path.shape),
        )

    @property
    def can_decode(self) -> bool:
        """Whether the model itself can."""
        return self.inner.can_decode

    def embed(self, X: Reals) -> Reals:
        """Rows where the centres live (n, p)."""
        return self.inner.embed(self._affine.apply(X))

    def transform(self, X: Reals) -> Reals:
        """Distances to all centres (n, k)."""
        return self.inner.transform(self._scaled(X))

    def predict(self, X: Reals) -> NDArray[np.integer]:
        """What the pipeline answers (n,)."""
        return self.inner.predict(self._scaled(X))

    def predict_proba(self, X: Reals) -> Reals:
        """Attention over the centres (n, k)."""
        return self.inner.predict_proba(self._scaled(X))

    def centers_in_units(self) -> Reals | None:
        """Centres (k, d) in the units before the scalers."""
        centers = self.inner.centers_in_units()
        return None if centers is None else self._affine.undo(np.asarray(centers, np.float64))

    def decode(self, Z: Reals) -> Reals:
        """Points (m, p) of the clustered space in the units before the scalers."""
        return self._affine.undo(np.asarray(self.inner.decode(Z), np.float64))

    def describe(self) -> Description:
        """What the model says of itself, with the names of the columns before the scalers."""
        about = self.inner.describe()
        return replace(about, feature_names=self._names or about.feature_names)

    def refit(self, X: Reals, random_state: int) -> PipelineModel | None:
        """The same scalers and a model fitted from another seed."""
        again = self.inner.refit(self._scaled(X), random_state)
        return None if again is None else PipelineModel(self.scalers, again, self._names)

    def save(
        self, folder: str | os.PathLike[str], metadata: dict[str, object] | None = None
    ) -> None:
        """Refuse: the scalers are foreign, and nothing here is pickled."""
        raise InputError(
            "a Pipeline cannot be saved as a folder, as its scalers are foreign; fit "
            "TELL(standardize=True), which keeps its scaler, or keep the Pipeline with joblib"
        )

    def _scaled(self, X: Reals) -> Reals:
        """Rows as the scalers themselves give them, to the last bit."""
        with warnings.catch_warnings():  # columns are in their order, only not named
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            for step in self.scalers:
                if step is not None and step != "passthrough":
                    X = step.transform(X)
        return X


def _composed(steps: Sequence[AffineInput]) -> AffineInput:
    """One scaling for several, the first applied first: ((x − a) / s − b) / t."""
    offset: Floats | None = None
    scale: Floats | None = None
    for step in steps:
        if step.offset is None or step.scale is None:
            continue
        if offset is None or scale is None:
            offset, scale = step.offset, step.scale
        else:
            offset, scale = offset + step.offset * scale, scale * step.scale
    return AffineInput(offset, scale)
