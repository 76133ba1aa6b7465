"""`TELL`: cluster features as they are, with the layer's centres and scikit-learn's contract."""

from __future__ import annotations

import os
import warnings
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import ClassifierTags

from tell.core.assignment import Rows, assign, exact_distances, nearest
from tell.core.engine import Fit, fit_centers
from tell.core.layer import ClusterLayer, Geometry
from tell.core.online import StreamState, grown, step, stream_state
from tell.data.sources import Source, is_array_like
from tell.estimators.checks import check_options, check_rows, given_centers, warn_about
from tell.estimators.sampling import label_chunks, open_unweighted, read_sample
from tell.estimators.scaling import Floats, Scaling, check_weights, join, to_rows
from tell.estimators.tell_saving import describe, restore, tensors_of
from tell.estimators.validation import (
    NotFittedError,
    check_finite,
    draw_seed,
    read_matrix,
    unchanged_on_error,
)
from tell.exceptions import DriftWarning, InputError
from tell.persistence import SavedModel, write_model
from tell.progress import progress

STREAM_HISTORY = 1024  # latest batches of which `stream_` tells
WARM_UP_ROWS = 8  # rows per cluster that a stream is seeded from


class TELL(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means as the paper's cluster layer, for arrays, sparse matrices, files and streams.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    geometry : {"sphere", "euclidean"}, default="sphere"
        "sphere" clusters directions, as the paper does: rows and centres get unit length, which
        suits embeddings, texts and images. "euclidean" clusters positions, as k-means does, for
        tables whose magnitudes matter.
    init : {"k-means++", "random", "kaiming"} or array of shape (k, d), default="k-means++"
        Where centres start. "kaiming" is the paper's; an array is given in the units of X.
    n_init : int, default=3
        Restarts; the one with the smallest clustering loss is kept, all are in `runs_`. They
        compete on a sample of the rows where there are many.
    max_iter : int, default=300
        Most steps of a restart, trials of moved centres included, and on each larger sample.
    tol : float, default=1e-4
        A sample is done when a step lowers the loss by less than this part of it.
    half_life : float or None, default=None
        For `partial_fit`: rows after which an earlier row counts half. None never forgets, which
        is right while the data stays as it is.
    temperature : float, default=0.0
        τ of the soft assignment in `predict_proba`; 0 takes the fit's own mean loss, a scale at
        which rows between two clusters show it.
    standardize : bool, default=False
        Give each column mean 0 and deviation 1 first; the scaler is part of the model.
    random_state : int, RandomState or None, default=None
        Seed. With a fixed number of threads the same seed gives the same bits on one machine.
    device : str, default="cpu"
        Where to compute: "cpu", "cuda", "mps".
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (k, d)
        Centres in the clustered space: unit vectors on the sphere; standardised units where
        `standardize` is set. See `centers_in_units`.
    labels_ : ndarray of shape (n,)
        Cluster of each row of the last `fit`; after `partial_fit`, of the last batch, as its rows
        were assigned when they were learned.
    loss_ : float
        Mean clustering loss per row: squared distance to the own centre.
    n_iter_ : int
        Steps of the restart that won, over all samples.
    history_, runs_, stream_ : list of dict
        One entry per step, per restart, and per batch of `partial_fit` (the latest 1,024).
    layer_ : ClusterLayer
        The same centres as a torch module.
    cluster_sizes_ : ndarray of shape (k,)
        Rows (or weight) behind each centre.
    mean_, scale_ : ndarray of shape (d,) or None
        The scaler, where `standardize` is set.

    Notes
    -----
    A row of zeros has no direction: on the sphere it pulls no centre and falls to cluster 0.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from tell import TELL, evaluate
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TELL(10, random_state=0).fit(X)
    >>> evaluate(y, model.labels_).acc > 0.75
    True
    """

    n_features_in_: int
    _state: StreamState
    _scaling: Scaling
    _pending: list[tuple[Any, Floats | None]]
    _seed: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        geometry: Geometry = "sphere",
        init: str | ArrayLike = "k-means++",
        n_init: int = 3,
        max_iter: int = 300,
        tol: float = 1e-4,
        half_life: float | None = None,
        temperature: float = 0.0,
        standardize: bool = False,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.geometry = geometry
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.half_life = half_life
        self.temperature = temperature
        self.standardize = standardize
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.standardize
        tags.classifier_tags = ClassifierTags()  # says that predict_proba has a column per cluster
        return tags

    # --- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Cluster X, forgetting what was learned before.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), frame, path, or anything `open_source` reads
        y : ignored
        sample_weight : array of shape (n,), optional
            How often each row counts; 0 leaves it out of the fit, but it still gets a label.
        """
        with unchanged_on_error(self):
            check_options(self)
            if is_array_like(X):
                X = self._read_matrix(X, reset=True)
                weight = check_weights(sample_weight, X)
                fit = self._fit_array(X, weight, draw_seed(self.random_state))
            else:
                fit = self._fit_source(
                    open_unweighted(X, sample_weight), draw_seed(self.random_state)
                )
            warn_about(self, fit)
        return self

    def _fit_array(self, X: Any, weight: Floats | None, seed: int) -> Fit:
        scaling = Scaling.learn(X, weight, self.geometry, self.standardize)
        rows = to_rows(scaling.apply(X), weight, self.device)
        check_finite(self, X, rows)
        counted = rows
        if weight is not None and not weight.all():
            counted = rows.take(torch.nonzero(rows.weights() > 0)[:, 0])
        fit = self._fit_rows(counted, scaling, seed)
        self._adopt(fit, scaling)
        own = fit.assignment if counted is rows else assign(rows, fit.centers, self.geometry)
        self.labels_ = _labels(own.labels)
        return fit

    def _fit_source(self, source: Source, seed: int) -> Fit:
        """Cluster rows that are read in chunks: two passes and a sample in memory at most."""
        with progress("read", source.n_rows, visible=self.verbose > 0) as bar:
            sample = read_sample(source, seed, bar)
        self._take_columns(source)
        if sample.complete:
            return self._fit_array(sample.X, None, seed)
        scaling = sample.scaling(self.geometry, self.standardize)
        fit = self._fit_rows(to_rows(scaling.apply(sample.X), None, self.device), scaling, seed)
        self._adopt(fit, scaling)
        fit = fit.without_rows()
        del sample  # the labels may need the room
        with progress("assign", source.n_rows, visible=self.verbose > 0) as bar:
            found = label_chunks(source, self._assign, bar)
        self.labels_, self.loss_ = found.labels, found.loss
        self._usual_loss = found.loss
        self._state = grown(self._state, float(len(found.labels)))
        return fit

    def _fit_rows(self, rows: Rows, scaling: Scaling, seed: int) -> Fit:
        check_rows(self, rows)
        init = given_centers(self, scaling, rows)
        with progress("fit", self.max_iter, visible=self.verbose > 0) as bar:
            steps = iter(range(1, 1 << 60))
            fit = fit_centers(
                rows,
                self.n_clusters,
                init=init,
                geometry=self.geometry,
                n_init=self.n_init,
                max_iter=self.max_iter,
                tol=self.tol,
                seed=seed,
                report=lambda **entry: bar.update(
                    min(next(steps), self.max_iter - 1), loss=entry["loss"]
                ),
            )
            bar.update(self.max_iter, loss=fit.loss)
        return fit

    def _adopt(self, fit: Fit, scaling: Scaling) -> None:
        self._scaling = scaling
        self._state = stream_state(fit)
        self._pending = []
        self.loss_ = self._usual_loss = fit.loss  # the one follows a stream, the other does not
        self.n_iter_ = fit.n_iter
        self.history_ = fit.history
        self.runs_ = [
            {"seed": r.seed, "loss": r.loss, "n_iter": r.n_iter, "chosen": r.chosen}
            for r in fit.runs
        ]
        self.stream_: list[dict[str, float]] = []

    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from further rows, once, in one step per array or chunk.

        The first call seeds the centres. While fewer than `n_clusters` rows have come they are
        kept, and the model cannot predict yet.
        """
        with unchanged_on_error(self):
            check_options(self)
            if is_array_like(X):
                X = self._read_batch(X)
                return self._learn_array(X, check_weights(sample_weight, X))
            source = open_unweighted(X, sample_weight)
            if hasattr(self, "n_features_in_"):
                self._check_columns(source)
            else:
                self._take_columns(source)
            for chunk in source.chunks():
                self._learn_array(chunk.X, None)
            return self

    def _read_batch(self, X: Any) -> Any:
        if hasattr(self, "_state") and not self._pending:
            return self._read_matrix(X, reset=False)
        # Rows that wait for the seeding must be finite before they are kept.
        return read_matrix(self, X, reset=not hasattr(self, "n_features_in_"))

    def _learn_array(self, X: Any, weight: Floats | None) -> Self:
        if weight is None or weight.all():
            return self._learn(X, weight)
        ready = hasattr(self, "_state") and not self._pending
        labels = self._assign(X)[0] if ready else None  # as the rows are learned: before the step
        self._learn(X[weight > 0], weight[weight > 0])
        if hasattr(self, "_state"):
            self.labels_ = self._assign(X)[0] if labels is None else labels
        return self

    def _learn(self, X: Any, weight: Floats | None) -> Self:
        if not hasattr(self, "_state") or self._pending:
            return self._warm_up(X, weight)
        return self._step(X, weight)

    def _step(self, X: Any, weight: Floats | None) -> Self:
        dtype = self._state.centers.cpu().numpy().dtype  # the stream keeps its first precision
        weight = None if weight is None else weight.astype(dtype, copy=False)
        rows = self._rows(X.astype(dtype, copy=False), weight)
        was_drifting = self._state.watch.drifting
        self._state, record, labels = step(self._state, rows, self.geometry, self.half_life)
        self.stream_ = [*self.stream_[1 - STREAM_HISTORY :], record]
        self.loss_ = record["loss"]
        self.labels_ = _labels(labels)
        if self._state.watch.drifting and not was_drifting:
            warnings.warn(
                f"the loss of recent rows is {record['running_loss']:.4g}, usual is "
                f"{record['baseline_loss']:.4g}: the data drifts from what the model learned; "
                f"{'set' if self.half_life is None else 'shorten'} half_life to follow it, or "
                "fit again",
                DriftWarning,
                stacklevel=5,
            )
        return self

    def _warm_up(self, X: Any, weight: Floats | None) -> Self:
        """Seed from the first rows, and again when they have doubled, up to 8 per cluster."""
        pending = [*getattr(self, "_pending", []), (X, weight)]
        rows, weights = join(pending)
        before = rows.shape[0] - X.shape[0]
        levels = [self.n_clusters << i for i in range(WARM_UP_ROWS.bit_length())]
        if any(before < level <= rows.shape[0] for level in levels):
            if not hasattr(self, "_seed"):
                self._seed = draw_seed(self.random_state)
            self._fit_array(rows, weights, self._seed)
            self.labels_ = self.labels_[before:]
        elif hasattr(self, "_state"):
            self._step(X, weight)
        self._pending = pending if rows.shape[0] < levels[-1] else []
        return self

    # --- what was learned, all derived from one state ---------------------------------------------

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

    # --- asking --------------------------------------------------------------------------------

    def _read_matrix(self, X: Any, *, reset: bool) -> Any:
        # A scaling must not be learned from gaps; otherwise lengths tell of them, at no cost.
        scaled = self.standardize or self.geometry == "euclidean"
        return read_matrix(self, X, reset=reset, finite=reset and scaled)

    def _rows(self, X: Any, weight: Floats | None = None) -> Rows:
        """A checked matrix as rows of the clustered space, in the precision of X."""
        rows = to_rows(self._scaling.apply(X), weight, self.device)
        check_finite(self, X, rows)
        return rows

    def _assign(self, X: Any) -> tuple[NDArray[np.int32], NDArray[Any]]:
        rows = self._rows(X)
        found = assign(rows, self._state.centers.to(rows.example), self.geometry)
        return _labels(found.labels), found.distances.cpu().numpy()

    def _open_fitted(self, data: Any, sample_weight: Any = None) -> Source:
        source = open_unweighted(data, sample_weight)
        self._check_columns(source)
        return source

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Cluster of each row: the nearest centre."""
        self._fitted_state()
        if not is_array_like(X):
            source = self._open_fitted(X)
            with progress("predict", source.n_rows, visible=self.verbose > 0) as bar:
                return label_chunks(source, self._assign, bar).labels
        X = self._read_matrix(X, reset=False)
        rows = to_rows(self._scaling.apply(X), None, self.device)
        labels, scores = nearest(rows, self._state.centers.to(rows.example), self.geometry)
        if not torch.isfinite(scores.sum()):  # one look at the scores instead of at all of X
            check_finite(self, X, rows)
        return _labels(labels)

    def transform(self, X: Any) -> Floats:
        """Distances of each row to all centres, of shape (n, k)."""
        return np.sqrt(-self._scores(X))

    def predict_proba(self, X: Any) -> Floats:
        """Soft assignment of Eq. 7, of shape (n, k): the attention a row pays to each centre."""
        scores = self._scores(X)
        scores -= scores.max(axis=1, keepdims=True)  # first: what overflows later is a share of 0
        with np.errstate(over="ignore"):
            scores /= max(self.temperature or self._usual_loss, float(np.finfo(scores.dtype).tiny))
        np.exp(scores, out=scores)
        return scores / scores.sum(axis=1, keepdims=True)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean clustering loss per row: larger is better."""
        self._fitted_state()
        if not is_array_like(X):
            return -label_chunks(self._open_fitted(X, sample_weight), self._assign).loss
        X = self._read_matrix(X, reset=False)
        weight = check_weights(sample_weight, X)
        return -float(np.average(self._assign(X)[1].astype(np.float64), weights=weight))

    def _scores(self, X: Any) -> Floats:
        """Minus the squared distances, by the layer itself: (n, k)."""
        self._fitted_state()
        given = is_array_like(X)
        X = self._read_matrix(X, reset=False) if given else self._open_fitted(X).read().X
        rows = self._rows(X)
        centers = self._state.centers.to(rows.example)
        return -exact_distances(rows, centers, self.geometry).cpu().numpy()

    def _take_columns(self, source: Source) -> None:
        """Keep how many columns a file has and what they are called."""
        self.n_features_in_ = source.n_features
        if source.feature_names is not None:
            self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        else:
            self.__dict__.pop("feature_names_in_", None)

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

    # --- files ---------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str], metadata: dict[str, Any] | None = None) -> None:
        """Write the model to a folder, whole or not at all; `tell.load` reads it.

        It holds everything `partial_fit` needs: going on after a load equals never having
        stopped. `metadata` is any JSON to keep with it, found again as `metadata_`.
        """
        with unchanged_on_error(self):
            if metadata is not None:
                self.metadata_ = metadata
            write_model(folder, "TELL", describe(self), tensors_of(self))

    @classmethod
    def _from_saved(cls, saved: SavedModel) -> Self:
        return restore(cls(), saved)


def _labels(labels: torch.Tensor) -> NDArray[np.int32]:
    return labels.cpu().numpy().astype(np.int32)
