"""`TELL`: cluster features as they are, with the layer's centres and scikit-learn's contract."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import ClassifierTags

from tell.contract import (
    AffineInput,
    Description,
    NamedClusters,
    Reals,
    Run,
    TakesSources,
    unit,
)
from tell.core.array_search import LENGTHS, MOST_ROWS, label_array
from tell.core.assignment import Rows, exact_distances, nearest
from tell.core.layer import ClusterLayer, Geometry
from tell.core.online import StreamState, assign_live
from tell.core.radii import Radii
from tell.core.small_batches import is_small, small_step
from tell.data.limits import DEFAULT_MEMORY
from tell.data.sources import Source
from tell.estimators.fit_plan import FitPlan, FitResult, by_workers
from tell.estimators.lineage import keep_numbers, rows_like, without_retired
from tell.estimators.ranges import (
    as_labels,
    as_rows,
    check_weights,
    join,
    step_in_range,
    to_rows,
)
from tell.estimators.sampling import label_chunks
from tell.estimators.scaling import Floats, Scaling
from tell.estimators.tell_saving import describe, kept_choice, restore, tensors_of
from tell.estimators.updating import (
    STREAM_HISTORY,
    drift_in_words,
    growth_events,
    growth_rows,
    in_parts,
    in_words,
    seeding_rows,
)
from tell.estimators.validation import (
    NotFittedError,
    Prepare,
    check_finite,
    check_options,
    check_reject,
    draw_seed,
    needs_no_checks,
    open_rows,
    read_matrix,
    unchanged_on_error,
    warn_about,
    with_features,
)
from tell.exceptions import DriftWarning, GrowthWarning
from tell.export.methods import Exportable
from tell.persistence import SavedModel, save_as
from tell.progress import progress


class TELL(
    Exportable,
    NamedClusters,
    TakesSources,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """k-means as the paper's cluster layer, for arrays, sparse matrices, files and streams.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        Number of clusters; "auto" chooses it (see `choice_` and `tell.choose`). The model is then
        the one that this number would have given.
    geometry : {"sphere", "euclidean"}, default="sphere"
        "sphere" clusters directions, as the paper does: rows and centres get unit length, which
        suits embeddings, texts and images. "euclidean" clusters positions, as k-means does, for
        tables whose magnitudes matter.
    init : {"k-means++", "random", "kaiming"} or array of shape (k, d), default="k-means++"
        Where centres start. "kaiming" is the paper's; an array is given in the units of X.
    solver : {"lloyd", "sgd"}, default="lloyd"
        How centres move. "lloyd" takes the layer's step in closed form, on all rows at once.
        "sgd" is the paper's way: the layer is trained batch by batch with its normalised gradient,
        at a rate that falls to zero. Both end at the same loss; the first is many times faster.
    n_init : int, default=3
        Restarts; the one with the smallest clustering loss is kept, all are in `runs_`. They
        compete on a sample of the rows where there are many.
    max_iter : int, default=300
        Most steps of a restart, trials of moved centres included, and on each larger sample.
    tol : float, default=1e-4
        A sample is done when a step lowers the loss by less than this part of it. 0.1 gives a
        rough answer soon, for many clusters in a fraction of the time.
    half_life : float or None, default=None
        For `partial_fit`: rows after which an earlier row counts half. None never forgets, which
        is right while the data stays as it is.
    grow : bool or int, default=False
        For `partial_fit`: whether clusters may be born and retired. Rows that lie farther out than
        99 % of their cluster wait outside; where they gather, as dense as a cluster, for so many
        rows (True: 1,000), one is born of them; those that do not gather are learned later. A
        cluster without rows for ten times as long is retired, and nothing else gets its number.
    temperature : float, default=0.0
        τ of the soft assignment in `predict_proba`; 0 takes the fit's own mean loss, a scale at
        which rows between two clusters show it.
    standardize : bool, default=False
        Give each column mean 0 and deviation 1 first; the scaler is part of the model.
    prepare : "auto", bool or TablePreparation, default="auto"
        Whether a table (a frame, a CSV file, …) is read through a `TablePreparation`, which is then
        part of the model: gaps filled, categories and numbers weighed alike. "auto" does so where a
        table holds more than complete numbers; True for every table, as `tell fit` does. Arrays are
        taken as they are.
    random_state : int, RandomState or None, default=None
        Seed. With a fixed number of threads the same seed gives the same bits on one machine.
    device : str, default="cpu"
        Where to compute: "cpu", "cuda", "mps".
    memory : int or str, default="1GiB"
        What the rows of a file and their fit may take, in bytes or as "500MB", "2GB"; of each
        worker, where there are some. Of a larger file a uniform sample is clustered, then every
        row gets its label. Does not count: the program itself (about 0.5 GB), and arrays, which are
        in memory already.
    passes : int or "auto", default="auto"
        Most steps on all rows after the sample's, until one lowers the loss by less than `tol`.
        "auto" takes one of rows in memory, more where they cost little, where a step promises more
        than ten times `tol`, and with `workers`. What the next step promises is measured: `bound`
        in `history_`.
    workers : int, "torchrun" or None, default=None
        Processes that read the rows and take steps on all of them, on Ray; "torchrun": the ranks of
        the process group. The centres do not depend on how many there are. Rows in memory need
        none. None: this process, or for a Ray data set all CPUs of its cluster.
    max_clusters : int or None, default=None
        For n_clusters="auto": the largest number that is tried. None tries 20, and twice as many as
        long as more clusters still pay.
    trim : float, default=0.0
        Share of the rows, those that are served worst, that do not pull the centres; they get
        labels all the same, and are marked in `trimmed_`. For rows in memory.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (k, d)
        Centres in the clustered space: unit vectors on the sphere; standardised units where
        `standardize` is set. See `centers_in_units`.
    n_clusters_ : int
        How many there are; of a stream that grows, how many numbers were given.
    growth_ : list of dict
        With `grow`: each cluster that was `born` or `retired` (`event`), its number (`cluster`),
        the rows `seen` by then, and the `rows` that it was born of.
    retired_ : list of int
        Numbers of the clusters that take no rows any more.
    choice_ : Choice
        With n_clusters="auto": what speaks for the number, and the runner-up.
    lineage_ : list of dict
        After `fit(X, like=earlier)`: the `fate` of each cluster (kept, moved, split, merged, died,
        born) with the numbers behind it: `was` and `cluster`, its old number and its new one; how
        many rows both have (`shared`, of the old ones); how far its centre moved (`shift`, in
        widths of the old cluster); which clusters its rows went `into`.
    labels_ : ndarray of shape (n,)
        Cluster of each row of the last `fit`; after `partial_fit`, of the last batch, as its rows
        were assigned when they were learned.
    loss_ : float
        Mean clustering loss per row: squared distance to the own centre. After `partial_fit`, the
        running mean over the latest rows; that of a batch alone is `stream_[-1]["loss"]`.
    n_iter_ : int
        Steps of the restart that won, over all samples.
    cluster_losses_ : ndarray of shape (k,)
        Mean loss of the rows of each cluster in the last `fit`; NaN for an empty one.
    trimmed_ : ndarray of shape (n,)
        With `trim`: whether a row was left out of the centres.
    history_, runs_, stream_ : list of dict
        One entry per step, per restart, and per batch of `partial_fit` (the latest 1,024). Steps of
        all restarts (`run`) are there; those that led to the centres are `kept`.
    layer_ : ClusterLayer
        The same centres as a torch module.
    cluster_sizes_ : ndarray of shape (k,)
        Rows (or weight) behind each centre.
    mean_, scale_ : ndarray of shape (d,) or None
        The scaler, where `standardize` is set or a table was prepared.
    preparation_ : tell.data.preparation.Preparation
        How a table's columns became features, where that was needed. `n_features_in_` and
        `feature_names_in_` are then those of the features.

    Notes
    -----
    A row of zeros has no direction: on the sphere it pulls no centre, falls to cluster 0 and adds
    2 to the sum behind `loss_`, the squared distance between unit vectors at a right angle.

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
    lineage_: list[dict[str, Any]]

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        geometry: Geometry = "sphere",
        init: str | ArrayLike = "k-means++",
        solver: str = "lloyd",
        n_init: int = 3,
        max_iter: int = 300,
        tol: float = 1e-4,
        half_life: float | None = None,
        grow: bool | int = False,
        temperature: float = 0.0,
        standardize: bool = False,
        prepare: Prepare = "auto",
        random_state: Any = None,
        device: str = "cpu",
        memory: int | str = DEFAULT_MEMORY,
        passes: int | str = "auto",
        workers: int | str | None = None,
        max_clusters: int | None = None,
        trim: float = 0.0,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.geometry = geometry
        self.init = init
        self.solver = solver
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.half_life = half_life
        self.grow = grow
        self.temperature = temperature
        self.standardize = standardize
        self.prepare = prepare
        self.random_state = random_state
        self.device = device
        self.memory = memory
        self.passes = passes
        self.workers = workers
        self.max_clusters = max_clusters
        self.trim = trim
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self.standardize and self.solver == "lloyd"
        tags.classifier_tags = ClassifierTags()  # says that predict_proba has a column per cluster
        return tags

    # --- learning ------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        like: TELL | None = None,
    ) -> Self:
        """Cluster X, forgetting what was learned before.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d), frame, path, or anything `open_source` reads
        y : ignored
        sample_weight : array of shape (n,), optional
            How often each row counts; 0 leaves it out of the fit, but it still gets a label. Not
            for files larger than `memory`.
        like : TELL, optional
            An earlier model of such rows: its centres are where this fit starts, its clusters keep
            their numbers, and `lineage_` says what became of each.
        """
        with unchanged_on_error(self):
            check_options(self)
            if like is not None:
                X = rows_like(self, X, like)
            source = self._open_new(X)
            found = FitPlan(self, draw_seed(self.random_state), like).fit(source, sample_weight)
            self._adopt(found)
            self.__dict__.pop("lineage_", None)
            self._forget_names()
            if like is not None:
                keep_numbers(self, like, like.predict(with_features(X, like)))
            warn_about(self, self._state.memory.counts, converged=found.converged)
        return self

    def _open_new(self, X: Any) -> Source:
        return open_rows(
            self, X, reset=True, check=lambda rows: self._read_matrix(rows, reset=True)
        )

    def _adopt(self, found: FitResult) -> None:
        """Take over what a fit has found, and forget what was learned before."""
        self._scaling, self._state, self._pending = found.scaling, found.state, []
        self.loss_ = self._usual_loss = found.loss  # the one follows a stream, the other does not
        self.n_iter_, self.history_, self.runs_ = found.n_iter, found.history, found.runs
        self.labels_, self.cluster_losses_ = found.labels, found.cluster_losses
        self.stream_: list[dict[str, float]] = []
        self.growth_: list[dict[str, Any]] = []
        for name, value in (("choice_", found.choice), ("trimmed_", found.trimmed)):
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from further rows, once, in one step per array or chunk.

        The first call seeds the centres. While fewer than `n_clusters` rows have come they are
        kept, and the model cannot predict yet; "auto" needs 32, and chooses again whenever the rows
        have doubled, up to 512.
        """
        with unchanged_on_error(self):
            self._check_options()
            if sample_weight is None and self._takes(X):
                self._learn(X, None)
                return self
            new = not hasattr(self, "n_features_in_")
            source = open_rows(self, X, reset=new, check=self._read_batch)
            if source.in_memory or sample_weight is not None:
                X = self._all_rows(source)
                self._learn(X, check_weights(sample_weight, X))
            else:
                for chunk in source.chunks():
                    self._learn(chunk.X, None)
        return self

    def _check_options(self) -> None:
        """Check the parameters, unless they are the very ones that were checked last."""
        given, checked = _PARAMETERS(vars(self)), getattr(self, "_checked", None)
        if checked is None or not all(map(operator.is_, given, checked)):
            check_options(self)
            self._checked = given

    def _takes(self, X: Any) -> bool:
        """Whether X can be used as it is: an array as any source would give it."""
        known = vars(self)
        return (
            "_state" in known
            and "preparation_" not in known
            and not self._pending
            and needs_no_checks(self, X)
        )

    def _read_batch(self, X: Any) -> Any:
        if self._is_warm:
            return self._read_matrix(X, reset=False)
        # Rows that wait for the seeding must be finite before they are kept.
        return read_matrix(self, X, reset=not hasattr(self, "n_features_in_"))

    @property
    def _is_warm(self) -> bool:
        """Whether the centres are there to stay: a stream seeds them from its first rows."""
        return hasattr(self, "_state") and not self._pending

    def _learn(self, X: Any, weight: Floats | None) -> None:
        learn = self._step if self._is_warm else self._warm_up
        if weight is None or weight.all():
            learn(X, weight)
            return
        labels = self._assign(X)[0] if self._is_warm else None  # as they are learned: before
        learn(X[weight > 0], weight[weight > 0])
        if hasattr(self, "_state"):
            self.labels_ = self._assign(X)[0] if labels is None else labels

    def _warm_up(self, X: Any, weight: Floats | None) -> None:
        """Seed from the first rows, and again when they have doubled."""
        pending = [*getattr(self, "_pending", []), (X, weight)]
        rows, weights = join(pending)
        before, after = rows.shape[0] - X.shape[0], rows.shape[0]
        levels = seeding_rows(self.n_clusters)
        if any(before < level <= after for level in levels):
            if not hasattr(self, "_seed"):
                self._seed = draw_seed(self.random_state)
            self._adopt(FitPlan(self, self._seed).fit_matrix(rows, weights))
            self.labels_ = self.labels_[before:]
        elif hasattr(self, "_state"):
            self._step(X, weight)
        self._pending = pending if after < levels[-1] else []

    def _step(self, X: Any, weight: Floats | None) -> None:
        """Move the centres to further rows."""
        grow = growth_rows(self.grow)
        if grow is not None:
            self._known_radii()
        dtype = self._state.centers.cpu().numpy().dtype  # the stream keeps its first precision
        weight = None if weight is None else weight.astype(dtype, copy=False)
        found = []
        for part, part_weight in in_parts(X, weight, grow):
            before, step = self._state, None
            if weight is None and grow is None and is_small(part, before):
                scaled = self._scaling.apply(part).astype(dtype, copy=False)
                step = small_step(before, scaled, self.geometry, self.half_life)
            if step is None:
                rows = self._rows(part, part_weight, dtype)
                new, record, own = step_in_range(before, rows, self.geometry, self.half_life, grow)
                step = new, record, own.cpu().numpy()
            self._state, record, labels = step
            self.stream_ = [*self.stream_[1 - STREAM_HISTORY :], record]
            self.loss_ = record["running_loss"]  # that of this batch alone is in `stream_`
            found.append(labels.astype(np.int32))
            if self._state.watch.drifting and not before.watch.drifting:
                warnings.warn(drift_in_words(record, self.half_life), DriftWarning, stacklevel=4)
            for entry in growth_events(before, self._state) if grow is not None else ():
                self.growth_ = [*self.growth_, entry]
                warnings.warn(in_words(entry), GrowthWarning, stacklevel=4)
        self.labels_ = found[0] if len(found) == 1 else np.concatenate(found)

    # --- what was learned, all derived from one state ---------------------------------------------

    def _fitted_state(self) -> StreamState:
        if hasattr(self, "_state"):
            return self._state
        rows = sum(X.shape[0] for X, _ in getattr(self, "_pending", []))
        needed = seeding_rows(self.n_clusters)[0] if rows else 0
        seen = f" and has seen {rows} of the {needed} rows it needs" if rows else ""
        raise NotFittedError(
            f"this {type(self).__name__} is not fitted yet{seen}; call fit or partial_fit first"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state")

    @property
    def n_clusters_(self) -> int:
        """How many clusters there are; of a stream that grows, how many numbers were given."""
        return len(self._state.centers)

    @property
    def retired_(self) -> list[int]:
        """Numbers of the clusters that take no rows any more."""
        growth = self._state.growth
        return [] if growth is None else torch.nonzero(growth.retired)[:, 0].tolist()

    def without_retired(self) -> TELL:
        """A copy without the retired clusters: those behind them move up and are called by number.

        For what knows clusters by their place alone, such as an exported model.
        """
        live = self._fitted_state().live
        return self if live is None else without_retired(self, live)

    @property
    def cluster_centers_(self) -> Floats:
        """Centres in the clustered space, of shape (k, d)."""
        return self._scaling.shown(self._state.centers.cpu().numpy())

    @property
    def layer_(self) -> ClusterLayer:
        """The centres as a torch module, ready to be put behind a network; no retired ones."""
        centers = torch.from_numpy(self.cluster_centers_)
        if (live := self._state.live) is not None:
            centers = centers[live.cpu()]
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
        return self._scaling.offset if self._scaling.scale is not None else None

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
        return self.n_clusters_

    def centers_in_units(self) -> Floats:
        """Centres of shape (k, d) in the units of the data.

        A direction has no length: on the sphere it is drawn at the mean length of its rows. That is
        a picture of the direction, not the mean of the members, whose values may be far from it:
        what the members look like says `tell.explain`.
        """
        centers = self._fitted_state().centers.cpu().numpy().astype(np.float64)
        if self.geometry == "sphere":
            centers = centers * self.center_lengths_[:, None]
        return self._scaling.undo(centers)

    # --- the contract of every model here: `tell.contract.ClusterModel` ---------------------------

    @property
    def input_path(self) -> AffineInput:
        """The scaler alone stands between the columns and the centres."""
        self._fitted_state()
        scaling = self._scaling
        if scaling.offset is None or scaling.scale is None:  # an offset alone is undone again
            return AffineInput()
        return AffineInput(scaling.offset.astype(np.float64), scaling.scale.astype(np.float64))

    @property
    def can_decode(self) -> bool:
        """The clustered space is that of the columns, scaled."""
        return True

    def embed(self, X: Any) -> Floats:
        """Rows where `cluster_centers_` live, (n, d): scaled; of unit length on the sphere."""
        return self._answers(X, self._embedded)

    def _embedded(self, X: Any) -> Floats:
        rows = self.input_path.apply(X.toarray() if hasattr(X, "toarray") else X)
        return (unit(rows) if self.geometry == "sphere" else rows).astype(X.dtype, copy=False)

    def decode(self, Z: Reals) -> Reals:
        """Points (m, d) of the clustered space in the data's units, as long as they are given."""
        return self.input_path.undo(np.asarray(Z, np.float64))

    def describe(self) -> Description:
        """What the model is, as a record."""
        centers = self._fitted_state().centers
        names = getattr(self, "feature_names_in_", None)
        return Description(
            kind=type(self).__name__,
            geometry=self.geometry,
            n_clusters=len(centers),
            n_features=self.n_features_in_,
            input_shape=(self.n_features_in_,),
            feature_names=None if names is None else tuple(map(str, names)),
            temperature=float(self.temperature),
            settings=self.get_params(deep=False),
            minimised=("clustering",),
            loss=float(self.loss_),
            sizes=self.cluster_sizes_,
            assignment_temperature=self._assignment_temperature(np.float32),
            runs=tuple(map(Run.of, self.runs_)),
            history=self.history_,
            choice=kept_choice(self),
            lineage=getattr(self, "lineage_", ()),
            retired=tuple(self.retired_),
        )

    def refit(self, X: Any, random_state: int) -> TELL:
        """A new model with the same options and as many clusters, fitted to X from this seed."""
        n_clusters = self.n_clusters_ - len(self.retired_)
        same = clone(self).set_params(random_state=random_state, n_clusters=n_clusters)
        return same.fit(with_features(X, self))

    # --- asking --------------------------------------------------------------------------------

    def _read_matrix(self, X: Any, *, reset: bool) -> Any:
        # A scaling must not be learned from gaps; otherwise lengths tell of them, at no cost.
        scaled = self.standardize or self.geometry == "euclidean"
        return read_matrix(self, X, reset=reset, finite=reset and scaled)

    def _rows(self, X: Any, weight: Floats | None = None, dtype: Any = None) -> Rows:
        """A checked matrix as rows of the clustered space, in the precision of X or another.

        They are rounded after they are scaled: a large mean would take their digits.
        """
        scaled = self._scaling.apply(X)
        scaled = scaled if dtype is None else scaled.astype(dtype, copy=False)
        rows = to_rows(scaled, weight, self.device)
        check_finite(self, X, rows)
        return rows

    def _assign(self, X: Any) -> tuple[NDArray[np.int32], NDArray[Any]]:
        rows = self._rows(X)
        found = assign_live(rows, self._state, self.geometry)
        return as_labels(found.labels), found.distances.cpu().numpy()

    def _open(self, X: Any) -> Source:
        self._fitted_state()
        return open_rows(
            self, X, reset=False, check=lambda rows: self._read_matrix(rows, reset=False)
        )

    def predict(self, X: Any, *, reject: float | None = None) -> NDArray[np.int32]:
        """Cluster of each row: the nearest centre.

        Parameters
        ----------
        X : whatever `fit` takes
        reject : float, optional
            Give -1 to rows that lie farther from their centre than all but this share of the
            cluster's fitted rows: 0.01 rejects 1 % of rows like these, and what is unlike them.
        """
        if reject is not None:
            return self._predict_members(X, reject)
        if self._takes(X):
            return self._predict_matrix(X)
        source = self._open(X)
        if by_workers(self, source):
            from tell.estimators.all_rows import predict_shards

            return predict_shards(self, source)
        if not source.in_memory:
            with progress("predict", source.n_rows, visible=self.verbose > 0) as bar:
                return label_chunks(source, self._assign, self.n_clusters_, bar=bar).labels
        return self._predict_matrix(source.matrix())

    def _predict_matrix(self, X: Any) -> NDArray[np.int32]:
        state, live = self._state, self._state.live
        scaled = self._scaling.apply(X)
        if (
            type(scaled) is np.ndarray
            and len(scaled) <= MOST_ROWS
            and state.centers.device.type == "cpu"
        ):
            taking = None if live is None else live.numpy()
            found = label_array(scaled, state.centers.numpy(), self.geometry, taking)
            return self._assign(X)[0] if found is None else found
        if live is not None:
            return self._assign(X)[0]
        rows = as_rows(scaled, None, self.device)
        labels, scores = nearest(rows, state.centers.to(rows.example), self.geometry)
        # One look at the scores instead of at all of X.
        usual = torch.isfinite(scores.sum()) and scores.abs().max() > LENGTHS[0]
        return as_labels(labels) if usual else self._assign(X)[0]

    def _predict_members(self, X: Any, reject: float) -> NDArray[np.int32]:
        limits = self.reject_limits(reject)

        def members(rows: Any) -> NDArray[np.int32]:
            labels, distances = self._assign(rows)
            return np.where(distances > limits[labels], -1, labels).astype(np.int32)

        return self._answers(X, members)

    def _answers(self, X: Any, answer: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """What `answer` says of all rows: at once, or chunk by chunk."""
        source = self._open(X)
        if source.in_memory:
            return answer(source.matrix())
        return np.concatenate([answer(chunk.X) for chunk in source.chunks()])

    def _all_rows(self, source: Source) -> Any:
        """The matrix of all rows, or why there is none."""
        return source.matrix() if source.in_memory else FitPlan(self, seed=0).all_rows(source)

    def _known_radii(self) -> Radii:
        radii = self._fitted_state().radii
        if radii is None:
            raise NotFittedError(
                "this model was saved before distances were kept, which rejecting and "
                "outlier_score need; fit it again"
            )
        return radii

    def reject_limits(self, reject: float) -> Floats:
        """Squared distances (k,) to the own centre beyond which `predict(X, reject)` gives -1."""
        return self._known_radii().limits(check_reject(reject)).cpu().numpy()

    def outlier_score(self, X: Any) -> Floats:
        """How far out each row lies: the share (n,) of its cluster's fitted rows that lie nearer.

        0.99 is farther from the centre than 99 % of the cluster. Beyond the farthest of them the
        score goes on rising, so that rows can be ranked.
        """
        radii = self._known_radii()

        def share_nearer(rows: Any) -> Floats:
            labels, distances = self._assign(rows)
            own = torch.from_numpy(labels.astype(np.int64)).to(radii.unit.device)
            farther = radii.farther(own, torch.from_numpy(distances).to(own.device))
            return 1 - farther.cpu().numpy()

        return self._answers(X, share_nearer)

    def transform(self, X: Any) -> Floats:
        """Distances of each row to all centres, of shape (n, k)."""
        return np.sqrt(-self._scores(X))

    def predict_proba(self, X: Any) -> Floats:
        """Soft assignment of Eq. 7, of shape (n, k): the attention a row pays to each centre."""
        scores = self._scores(X)
        scores -= scores.max(axis=1, keepdims=True)  # first: what overflows later is a share of 0
        with np.errstate(over="ignore"):
            scores /= self._assignment_temperature(scores.dtype)
        np.exp(scores, out=scores)
        return scores / scores.sum(axis=1, keepdims=True)

    def _assignment_temperature(self, dtype: Any) -> float:
        return max(self.temperature or self._usual_loss, float(np.finfo(dtype).tiny))

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean clustering loss per row: larger is better."""
        source = self._open(X)
        if not source.in_memory and sample_weight is None:
            return -label_chunks(source, self._assign, self.n_clusters_).loss
        X = self._all_rows(source)
        weight = check_weights(sample_weight, X)
        return -float(np.average(self._assign(X)[1].astype(np.float64), weights=weight))

    def _scores(self, X: Any) -> Floats:
        """Minus the squared distances, by the layer itself: (n, k)."""
        return self._answers(X, self._matrix_scores)

    def _matrix_scores(self, X: Any) -> Floats:
        rows = self._rows(X)
        centers = self._state.centers.to(rows.example)
        distances = exact_distances(rows, centers, self.geometry).cpu().numpy()
        distances[:, self.retired_] = np.inf  # nothing is near a cluster that takes no rows
        return -distances

    # --- files ---------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str], metadata: dict[str, Any] | None = None) -> None:
        """Write the model to a folder, whole or not at all; `tell.load` reads it.

        It holds everything `partial_fit` needs: going on after a load equals never having
        stopped. `metadata` is any JSON to keep with it, found again as `metadata_`. A folder that
        was changed by somebody else since this model was loaded from it or saved there is refused.
        """
        with unchanged_on_error(self):
            if metadata is not None:
                self.metadata_ = metadata
            save_as(self, folder, SavedModel("TELL", describe(self), tensors_of(self)))

    @classmethod
    def _from_saved(cls, saved: SavedModel) -> Self:
        return restore(cls(), saved)


_PARAMETERS = operator.itemgetter(*TELL._get_param_names())
