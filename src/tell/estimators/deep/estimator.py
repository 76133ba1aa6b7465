"""`DeepTELL`: features and clusters learned together (section 3.2.4)."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import Tags, check_array
from torch import Tensor, nn

from tell.contract import (
    Description,
    EncodedInput,
    Floats,
    NamedClusters,
    Reals,
    Run,
    squared_distances,
)
from tell.core.augment import resolve_augment
from tell.core.batches import Augment
from tell.core.loop import Hook
from tell.core.objective import table_loss
from tell.core.precision import check_precision
from tell.data.limits import DEFAULT_MEMORY, as_bytes
from tell.data.sources import Source
from tell.estimators.deep.inputs import InputScale, choose_scale, network_shape, open_images
from tell.estimators.deep.layer_text import is_named
from tell.estimators.deep.model import Assigned, DeepModel
from tell.estimators.deep.networks import Network, float32_by_default
from tell.estimators.deep.partial import one_pass
from tell.estimators.deep.recipes import resolve_recipe
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.recipe import Recipe
from tell.estimators.deep.runs import Plan, count_jobs, find_shared, train_all
from tell.estimators.deep.saving import check_comes_back, describe, restore, tensors_of
from tell.estimators.deep.streaming import SourceRows, buffer_bytes, thin
from tell.estimators.deep.training import Control, Trained
from tell.estimators.sampling import label_chunks, most_rows, per_cluster, read_sample
from tell.estimators.tell_saving import kept_choice
from tell.estimators.updating import STREAM_HISTORY
from tell.estimators.validation import (
    NotFittedError,
    Prepare,
    check_number_of_clusters,
    check_workers,
    draw_seed,
    is_usable,
    unchanged_on_error,
    with_features,
)
from tell.exceptions import ConvergenceWarning, DriftWarning, InputError, ParameterError
from tell.export.methods import Exportable
from tell.persistence import SavedModel, save_as

BYTES_PER_ROW = 1024  # of what recipes keep for each row: embedding, neighbours, assignment


class DeepTELL(
    Exportable,
    NamedClusters,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    BaseEstimator,
):
    """Cluster rows or images by features that are learned for it.

    An autoencoder learns an embedding on the unit sphere while a `ClusterLayer` learns centres in
    it. No labels are used anywhere.

    Parameters
    ----------
    n_clusters : int or "auto", default=8
        "auto" takes as many as the neighbour graph of the start has communities: see `choice_`.
        For starts from a graph.
    encoder : {"auto", "cnn", "fcn", "mlp"}, torch module or "package.module:function"
        "auto" takes the paper's convolutional network for images and a perceptron for tables. A
        module maps (n, ...) to (n, p); its values come as they are in X, in float32. To be saved,
        it consists of layers of `torch.nn`, or comes from a path; a function there is marked with
        `tell.network_builder`.
    decoder : "auto", torch module, "package.module:function" or None
        "auto" mirrors a named encoder; a module of your own works without one, and then there is
        no reconstruction loss. A module maps (n, p) to as many values as a row of X has.
    recipe : {"tell", "distil", "paper"} or a recipe object
        How to train. "tell" takes a start, lets two views of each row agree and then minimises
        `L_rec + λ L_clu` (eq. 15) until the labels settle; "distil" is the start alone,
        labels without TELL; "paper" is the published procedure. Pass an object, such as
        `TellRecipe(...)`, to change the details.
    start : {"graph", "k-means++", "random"}, array (n,) or (n, n_clusters), or start object
        Instead of the recipe's: where TELL begins. An array holds labels of your own, from 0, -1
        where unknown, or soft assignments.
    embedding_dim : int
        Length p of the embedding of a named encoder.
    augment : None, "affine", "crop", "elastic", "flip", "jitter" or callable (x, generator) -> x
        Movements that must not change the cluster, for tensors (b, c, h, w); several names with
        commas between. Off by default.
    epochs, n_init : int, optional
        Instead of the recipe's: length of its main stage, and number of runs, of which the one
        with the smallest clustering loss is kept.
    n_jobs : int, optional
        Processes of one thread each in which runs go side by side, by joblib's conventions: None
        is 1, -1 all cores. The result is that of one run after another with one thread. Hooks are
        called on copies, in the processes.
    max_time : float, optional
        Seconds after which training stops with what it has, and a warning. Before that a start
        from a graph or from labels always takes its `distil_steps`, without which the network
        would know nothing. A run that was cut short is only chosen if none is complete.
    checkpoint : path, optional
        Folder for the state of an unfinished fit, be it killed or stopped by `max_time`. `fit`
        with the same options and rows goes on from there, to the very model of an uninterrupted
        run, and clears the folder at the end. `max_time`, `hooks`, `n_jobs` and `verbose` may
        change, and so may the first weights of a network of your own: the folder has those with
        which the fit began.
    hooks : sequence of `tell.core.loop.Hook`
        Called at the start and the end of every epoch and after every step.
    compiled : bool
        Compile the networks and the optimiser: may pay for long trainings of the fully connected
        network, and needs a C++ compiler; without one a warning says so and nothing is compiled.
    precision : {"float32", "bfloat16"}, default="float32"
        Of the products in training. "bfloat16" rounds what the networks multiply to three digits
        and leaves weights, losses and cluster layer as they are: faster on graphics cards and on
        processors with instructions for it, slower elsewhere. A fitted model computes in float32.
    prepare : "auto", bool or TablePreparation, default="auto"
        As in `TELL`: whether a table is read through a `TablePreparation`.
    random_state : int, RandomState or None
    device : str
        Where to compute: "cpu", "cuda", … A saved model is loaded on the CPU where it is missing.
    memory : int or str, default="1GiB"
        What the rows of a file may take, in bytes or as "2GB". Of a larger file a uniform sample
        stays in memory: a start from a graph or from k-means++ centres is found in it, and labels
        have settled when its own have. Reconstruction and eq. 15 are trained on all rows, read from
        the file in another order in every epoch; then every row gets its label. Arrays are in
        memory already.
    workers : int, "torchrun" or None, default=None
        Processes that train together on Ray, each on its share of the rows and of every batch:
        they average their gradients before each step, and all hold the same model. "torchrun": the
        ranks of the process group, of which each calls `fit` with the same rows. Without
        `checkpoint` and `n_jobs`; hooks are called on copies, in the processes.
    max_clusters : int or None, default=None
        For n_clusters="auto": the largest number that may be chosen.
    verbose : int
        Above 0, show a progress bar.

    Attributes
    ----------
    cluster_centers_ : ndarray (n_clusters, p)
        Unit vectors in the embedding.
    n_clusters_ : int
        How many there are.
    choice_ : GraphChoice
        With n_clusters="auto": what speaks for the number, and the runner-up.
    labels_ : ndarray (n,)
    loss_ : float
        `L_clu`, the mean squared distance of an embedded row to its centre.
    table_loss_ : float
        The same in the normalisation of the paper's tables S1 and S2.
    cluster_sizes_ : ndarray (n_clusters,)
        Rows of the fit and of every `partial_fit` since, by the cluster that each one was given
        at the time.
    cluster_losses_ : ndarray (n_clusters,)
        Mean loss of the rows of each cluster in the last `fit`; NaN for an empty one.
    history_ : list of dict, one per epoch
        Stage, both losses and their weighted total, labels that changed: see `tell.core.loop.Loop`.
        The stage "tell" adds `relabelled`, the share of rows whose prediction is another than an
        epoch before, and λ as `weight`.
    runs_ : list of dict, one per run: seed, loss, table_loss, n_iter, settled, chosen
        `settled` says whether the labels did before the last epoch that was allowed.
    n_iter_ : int
        Epochs of the chosen run.
    encoder_, decoder_, layer_ : torch modules
    input_shape_ : tuple
        Shape of a row of X.
    stream_ : list of dict, one per call of `partial_fit` (the latest 1,024)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> images = load_digits().images[:200]
    >>> model = DeepTELL(10, epochs=2, random_state=0).fit(images)
    >>> model.predict(images[:3]).shape, model.transform(images[:3]).shape
    ((3,), (3, 10))
    >>> model.embed(images[:3]).shape, model.centers_in_units().shape
    ((3, 10), (10, 8, 8))
    """

    stream_: list[dict[str, Any]]

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        encoder: Network = "auto",
        decoder: Network = "auto",
        recipe: str | Recipe = "tell",
        start: Any = None,
        embedding_dim: int = 10,
        augment: str | Augment | None = None,
        epochs: int | None = None,
        n_init: int | None = None,
        n_jobs: int | None = None,
        max_time: float | None = None,
        checkpoint: str | PathLike[str] | None = None,
        hooks: Sequence[Hook] = (),
        compiled: bool = False,
        precision: str = "float32",
        prepare: Prepare = "auto",
        random_state: int | np.random.RandomState | None = None,
        device: str | torch.device = "cpu",
        memory: int | str = DEFAULT_MEMORY,
        workers: int | str | None = None,
        max_clusters: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.decoder = decoder
        self.recipe = recipe
        self.start = start
        self.embedding_dim = embedding_dim
        self.augment = augment
        self.epochs = epochs
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.hooks = hooks
        self.compiled = compiled
        self.precision = precision
        self.prepare = prepare
        self.random_state = random_state
        self.device = device
        self.memory = memory
        self.workers = workers
        self.max_clusters = max_clusters
        self.verbose = verbose

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the embedding and the clusters of X.

        Parameters
        ----------
        X : array (n, d), (n, h, w) or (n, c, h, w), frame, path, or anything `open_source` reads
        y : ignored
        """
        with unchanged_on_error(self), float32_by_default():
            self._fit(X)
            self._forget_names()
        return self

    def _fit(self, X: Any) -> None:
        recipe = self._recipe()
        source = open_images(self, X, reset=True)
        control = self._control()
        first = control.first_seed(draw_seed(self.random_state))
        sample = read_sample(source, self._most_rows(source), first)
        if not sample.complete:
            thin(sample, first)
        rows = sample.X.reshape(-1, *source.row_shape)
        self._check(rows)
        prepared = getattr(self, "preparation_", None)
        scale = choose_scale(self.encoder, recipe.table_network, rows, prepared)
        x = scale.apply(rows.reshape(-1, *network_shape(source.row_shape))).to(self.device)
        sample_is_all = sample.complete
        sample.X = rows = None  # a file's rows were read for this alone
        if self.max_time is not None:
            control.deadline = time.monotonic() + self.max_time
        options = {**self.get_params(deep=False), "recipe": recipe}
        del options["start"]  # which is in the recipe
        seeds = [first + run for run in range(recipe.n_init)]
        seeds = control.agree(options, x, seeds)
        networks = control.begun_with({"encoder": self.encoder, "decoder": self.decoder})
        plan = self._plan(networks, recipe, x)
        shared = find_shared(plan, x, seeds[0], control)
        plan.n_clusters = self._count(recipe, shared, seeds[0])
        if not sample_is_all:
            buffer = buffer_bytes(as_bytes(self.memory))
            plan.source = SourceRows(source, sample.n_rows, scale, self.device, buffer)
        runs = train_all(plan, x, shared, seeds, control, n_jobs=self.n_jobs, workers=self.workers)
        self.input_shape_ = source.row_shape
        best = self._adopt(runs, scale)
        if not sample_is_all:
            self._label_all(source)
        cut = _cut_short(runs, recipe.n_init)
        for message in self._remarks(cut, trained=not best.cut):
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        if not cut:
            control.clear()

    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster of every row (n,)."""
        return _labels(self._assign(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the soft assignment of eq. 7 (n, n_clusters).

        Its temperature is the mean clustering loss, so that rows between two clusters show it.
        """
        scores = self._assign(X).scores
        return torch.softmax(scores / self._assignment_temperature(), dim=1).cpu().numpy()

    def _assignment_temperature(self) -> float:
        return max(float(self.loss_), float(np.finfo(np.float32).tiny))

    def transform(self, X: Any) -> np.ndarray:
        """Return the distances of the embedded rows to all centres (n, n_clusters)."""
        model = self._model()
        squared = squared_distances(self.embed(X), self.cluster_centers_, model.layer.geometry)
        return np.sqrt(squared).astype(np.float32)

    # --- the contract of every model here: `tell.contract.ClusterModel` ------------------------

    @property
    def input_path(self) -> EncodedInput:
        """The encoder stands between the columns and the centres."""
        model, shape = self._model(), network_shape(self.input_shape_)

        def tensor(rows: Reals) -> Tensor:
            x = self.scale_.apply(rows.reshape(-1, *shape))
            return x.to(model.layer.weight.device)

        def scores(x: Tensor) -> Tensor:
            model.eval()
            return model.layer(model.encoder(x)).scores

        scale = self.scale_
        return EncodedInput(
            tensor, scores, self._spread(), model.encoder, shape, scale.offset, scale.scale
        )

    @property
    def can_decode(self) -> bool:
        """Whether there is a decoder."""
        return self._model().decoder is not None

    def embed(self, X: Any) -> np.ndarray:
        """Return the embedding (n, p): unit vectors."""
        return self._embedded(X).cpu().numpy()

    def decode(self, Z: Any) -> np.ndarray:
        """Return what the decoder makes of embedded points (n, p), in the shape and units of X."""
        model = self._model()
        z = torch.from_numpy(check_array(Z, dtype=np.float32, input_name="Z").copy())
        if z.shape[1] != self.layer_.in_features:
            raise InputError(
                f"Z must have {self.layer_.in_features} columns, got {z.shape[1]}; pass points of "
                "the embedding"
            )
        z = z.to(self.layer_.weight.device)
        decoded = model.decode(nn.functional.normalize(z, dim=1))
        rows = self.scale_.undo(decoded.reshape(-1, *network_shape(self.input_shape_)))
        return rows.reshape(-1, *self.input_shape_)

    def centers_in_units(self) -> np.ndarray | None:
        """Return the centres in the shape and units of X, as the decoder draws them, or None."""
        return self.decode(self.cluster_centers_) if self.can_decode else None

    def describe(self) -> Description:
        """Return what the model is, as a record."""
        model = self._model()
        names = getattr(self, "feature_names_in_", None)
        terms = self._recipe().minimised
        return Description(
            kind=type(self).__name__,
            geometry=model.layer.geometry,
            n_clusters=model.layer.n_clusters,
            n_features=int(np.prod(self.input_shape_)),
            input_shape=tuple(self.input_shape_),
            feature_names=None if names is None else tuple(map(str, names)),
            temperature=0.0,
            assignment_temperature=self._assignment_temperature(),
            settings=self.get_params(deep=False),
            minimised=tuple(t for t in terms if t != "reconstruction" or self.can_decode),
            loss=float(self.loss_),
            sizes=self.cluster_sizes_,
            runs=tuple(map(Run.of, self.runs_)),
            history=self.history_,
            choice=kept_choice(self),
        )

    def refit(self, X: Any, random_state: int) -> DeepTELL:
        """Return a new model with the same options, fitted to X from this seed."""
        same = clone(self).set_params(random_state=random_state, n_clusters=self.n_clusters_)
        return same.fit(with_features(X, self))

    # --- more of scikit-learn's ------------------------------------------------------------------

    def score(self, X: Any, y: object = None) -> float:
        """Return minus the mean clustering loss of X."""
        return -float(self._assign(X).loss.mean())

    def partial_fit(self, X: Any, y: object = None, *, encoder: bool = False) -> Self:
        """Go on with more rows: one pass that moves the centres, and the networks if asked to.

        The first call on a new model is a `fit`.
        """
        if not hasattr(self, "layer_"):
            return self.fit(X)
        with unchanged_on_error(self), float32_by_default():
            x = self._tensor(X)
            model = copy.deepcopy(self._model())
            number = self.stream_[-1].get("batch", len(self.stream_) - 1) + 1 if self.stream_ else 0
            weight = self._recipe().weight_of(self.history_)
            record = one_pass(model, x, encoder=encoder, seed=number, weight=weight)
            labels = _labels(model.assign(model.embed(x)))
            self._set_model(model, labels, self.cluster_sizes_ + _sizes(model, labels))
            self.stream_ = [*self.stream_[1 - STREAM_HISTORY :], {**record, "batch": number}]
        return self

    def save(self, folder: str | PathLike[str], metadata: dict[str, Any] | None = None) -> None:
        """Write the fitted model as a folder; `tell.load` reads it.

        `metadata` is any JSON to keep with it, found again as `metadata_`. A network of your own
        is kept by its import path; one that would come back different is refused. So is a folder
        that was changed by somebody else since this model was loaded from it or saved there.
        """
        self._model()
        with unchanged_on_error(self):
            if metadata is not None:
                self.metadata_ = metadata
            saved = SavedModel("DeepTELL", describe(self), tensors_of(self))
            check_comes_back(self, saved, DeepTELL)
            save_as(self, folder, saved)

    @classmethod
    def _from_saved(cls, saved: SavedModel) -> Self:
        return restore(cls, saved)

    # --- the steps of fit ----------------------------------------------------------------------

    def _recipe(self) -> Recipe:
        recipe = resolve_recipe(self.recipe)
        changes = {"epochs": self.epochs, "n_init": self.n_init, "start": self.start}
        given = {name: value for name, value in changes.items() if value is not None}
        if "start" in given and not hasattr(recipe, "start"):
            raise ParameterError(
                f"start={self.start!r} must be left out for a recipe without one, got "
                f"recipe={self.recipe!r}; pass recipe='tell'"
            )
        return replace(recipe, **given)

    def _control(self) -> Control:
        return Control(
            folder=None if self.checkpoint is None else Path(self.checkpoint),
            hooks=self.hooks,
            compiled=self.compiled,
            precision=self.precision,
            visible=self.verbose > 0,
        )

    def _count(self, recipe: Recipe, shared: Mapping[str, Tensor], seed: int) -> int:
        """How many clusters there shall be; counted in the graph, if nobody says."""
        self.__dict__.pop("choice_", None)
        if self.n_clusters != "auto":
            return int(self.n_clusters)
        start = _graph_start(recipe)
        self.choice_ = start.count(shared, seed, self.max_clusters)
        return self.choice_.n_clusters

    @property
    def _fewest(self) -> int:
        """Clusters that there will be at least."""
        return 1 if self.n_clusters == "auto" else int(self.n_clusters)

    @property
    def n_clusters_(self) -> int:
        """How many clusters there are."""
        found: int = self.layer_.n_clusters
        return found

    def _plan(self, networks: Mapping[str, Network], recipe: Recipe, x: Tensor) -> Plan:
        return Plan(
            self._fewest,
            networks["encoder"],
            networks["decoder"],
            self.embedding_dim,
            self.device,
            recipe,
            resolve_augment(self.augment, tuple(x.shape[1:])),
        )

    def _most_rows(self, source: Source) -> int:
        """Rows that may be in memory at a time: as they are, and twice as the network sees them."""
        per_row = source.row_bytes + 2 * 4 * source.n_features + BYTES_PER_ROW
        return most_rows(as_bytes(self.memory), per_row, 0)

    def _label_all(self, source: Source) -> None:
        """Label all rows of a file of which a sample was learned."""
        found = label_chunks(source, self._assign_chunk, self.n_clusters_)
        self.labels_, self.loss_ = found.labels, found.loss
        self.table_loss_ = table_loss(found.loss, self.n_clusters_)
        self.cluster_sizes_ = np.bincount(found.labels, minlength=self.n_clusters_)
        self.cluster_losses_ = found.cluster_losses

    def _assign_chunk(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        model = self._model()
        found = model.assign(model.embed(self._scaled(rows)))
        return _labels(found), found.loss.cpu().numpy()

    def _check(self, rows: np.ndarray) -> None:
        time_left: Any = self.max_time
        if time_left is not None and not (isinstance(time_left, Real) and float(time_left) > 0):
            raise ParameterError(f"max_time must be above 0 seconds or None, got {self.max_time!r}")
        if self.checkpoint is not None and Path(self.checkpoint).is_file():
            raise ParameterError(f"checkpoint must be a folder, got the file {self.checkpoint}")
        if not is_usable(self.device):
            raise ParameterError(f"device must be usable here, got {self.device!r}; try 'cpu'")
        check_precision(self.precision, self.device)
        check_number_of_clusters(self)
        if self.n_clusters == "auto":
            _graph_start(self._recipe())
        for name in ("embedding_dim", "epochs", "n_init"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise ParameterError(f"{name} must be an integer of at least 1, got {value!r}")
        count_jobs(self.n_jobs)
        check_workers(self.workers)
        if self.workers is not None and (self.checkpoint, self.n_jobs) != (None, None):
            raise ParameterError(
                f"workers={self.workers!r} trains every run in all processes and keeps no state; "
                "leave out checkpoint and n_jobs"
            )
        if len(rows) < (least := max(self._fewest, 2)):
            raise InputError(
                f"n_clusters={self.n_clusters} needs at least {least} rows, "
                f"got n_samples={len(rows)}; pass more rows or lower n_clusters"
            )

    def _adopt(self, runs: list[Trained], scale: InputScale) -> Trained:
        # An embedding that is not trained yet may be so narrow that its loss is small.
        best = min(runs, key=lambda run: (bool(run.cut), run.loss))
        self.scale_ = scale
        self.loss_ = best.loss
        n_clusters = best.model.layer.n_clusters
        self.table_loss_ = table_loss(best.loss, n_clusters)
        self.history_ = best.history
        self.n_iter_ = len(best.history)
        self.stream_ = []
        self.runs_ = [
            {
                "seed": run.seed,
                "loss": run.loss,
                "table_loss": table_loss(run.loss, n_clusters),
                "n_iter": len(run.history),
                "settled": run.stopped == "settled",
                "chosen": run is best,
            }
            for run in runs
        ]
        self._set_model(best.model, _labels(best.assigned))
        losses = np.bincount(self.labels_, best.assigned.loss.cpu().numpy(), minlength=n_clusters)
        self.cluster_losses_ = per_cluster(losses, self.cluster_sizes_)
        return best

    def _remarks(self, cut: str, *, trained: bool) -> Iterator[str]:
        """Say what the user should know of a fit; `cut` is how far it came in its time."""
        empty = int((self.cluster_sizes_ == 0).sum())
        if cut:
            remedy = "raise max_time, or pass checkpoint= to go on later"
            if self.checkpoint is not None:
                remedy = "fit again with more time to go on from the checkpoint"
            so_far = f" with {empty} clusters still empty" if empty and not trained else ""
            yield f"max_time={self.max_time} ended training after {cut}{so_far}; {remedy}"
        if empty and trained:
            yield (
                f"n_clusters={self.n_clusters_} but {empty} of the clusters are empty; lower "
                "n_clusters or try another random_state"
            )

    def _set_model(
        self, model: DeepModel, labels: np.ndarray, sizes: np.ndarray | None = None
    ) -> None:
        self.encoder_, self.decoder_, self.layer_ = model.encoder, model.decoder, model.layer
        self.cluster_centers_ = model.layer.centers.detach().cpu().numpy()
        self.labels_ = labels
        self.cluster_sizes_ = _sizes(model, labels) if sizes is None else sizes
        self._n_features_out = model.layer.n_clusters

    # --- the steps of predict ------------------------------------------------------------------

    def _model(self) -> DeepModel:
        if not hasattr(self, "layer_"):
            raise NotFittedError("this DeepTELL is not fitted yet; call fit or partial_fit first")
        return DeepModel(self.encoder_, self.decoder_, self.layer_)

    def _spread(self) -> Floats:
        """What one unit of the network's input is worth in the data's units (d,)."""
        shape = network_shape(self.input_shape_)
        return np.broadcast_to(self.scale_.scale, shape).ravel().astype(np.float64)

    def _tensor(self, X: Any) -> Tensor:
        return self._scaled(open_images(self, X, reset=False).matrix())

    def _scaled(self, rows: np.ndarray) -> Tensor:
        x = self.scale_.apply(rows.reshape(-1, *network_shape(self.input_shape_)))
        if is_named(self.encoder) and len(x) and not self.scale_.resembles_fit(x):
            warnings.warn(
                f"the values of X are on another scale than those of the fit ({self.scale_}); "
                "scale them as they were then",
                DriftWarning,
                stacklevel=2,
            )
        return x.to(self.layer_.weight.device)

    def _embedded(self, X: Any) -> Tensor:
        """Embed rows (n, p); those of a file are read in chunks, so that it may be of any size."""
        model, source = self._model(), open_images(self, X, reset=False)
        if source.in_memory:
            return model.embed(self._scaled(source.matrix()))
        parts = [model.embed(self._scaled(chunk.X)) for chunk in source.chunks()]
        if not parts:
            raise InputError(f"{source.name} must hold at least one row, got none")
        return torch.cat(parts)

    def _assign(self, X: Any) -> Assigned:
        return self._model().assign(self._embedded(X))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def _graph_start(recipe: Recipe) -> GraphStart:
    """The start from a graph, in which clusters can be counted."""
    start = getattr(recipe, "start", None)
    if isinstance(start, GraphStart):
        return start
    raise ParameterError(
        'n_clusters="auto" must come with a start from the neighbour graph, in which clusters are '
        f"counted, got recipe={recipe.name or type(recipe).__name__!r} with another start or none; "
        'pass the number, or start="graph"'
    )


def _labels(assigned: Assigned) -> np.ndarray:
    return assigned.labels.cpu().numpy().astype(np.int32)


def _sizes(model: DeepModel, labels: np.ndarray) -> np.ndarray:
    return np.bincount(labels, minlength=model.layer.n_clusters)


def _cut_short(runs: list[Trained], planned: int) -> str:
    """Say how far a fit came whose time was up; nothing of one that is complete."""
    cut = [run for run in runs if run.cut]
    if cut:
        more = f", and in {len(cut) - 1} more" if len(cut) > 1 else ""
        return f"{cut[-1].cut} in run {cut[-1].number + 1} of {planned}{more}"
    return f"{len(runs)} of {planned} runs" if len(runs) < planned else ""
