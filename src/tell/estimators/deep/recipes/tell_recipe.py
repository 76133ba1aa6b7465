"""The default recipe: a start, two views of each row, then TELL: eq. 15 until labels settle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn, optim

from tell.core.batches import Batch, Batches
from tell.core.layer import ClusterLayer
from tell.core.loop import Hook, Loop, Record
from tell.core.objective import PAPER_WEIGHT, Clustering
from tell.core.schedule import ALTERNATIONS, Alternation, Always, PartOf, cosine_to
from tell.estimators.deep.model import DeepModel
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.recipe import AllRows, Recipe, Stage, Task, check_counts
from tell.estimators.deep.recipes.start import batch_rows, to_mean_directions, variance
from tell.estimators.deep.recipes.starts import resolve_start
from tell.estimators.deep.recipes.views import AUTO, Views, resolve_views
from tell.exceptions import ParameterError

LEAST_STEPS = 450  # of the descent, where few rows would give fewer
# The rate of eq. 15 after moved views, and the part of it at which labels settle. Views end at rate
# 0 with better labels than eq. 15 keeps where it jumps to 3e-4.
AFTER_MOVED_VIEWS = 1e-4, 0.1
SETTLED = 0.001  # share of the labels that may still change in an epoch
PATIENCE = 2  # epochs
SETTLED_LABELS = "settled"


@dataclass(frozen=True)
class TellRecipe(Recipe):
    """A start that finds the basin, views, then `L_rec + λ L_clu` (eq. 15) until labels settle.

    The learning rate falls along a cosine to a tenth (three hundredths of the higher one after
    k-means++) and stays there until, in each of two epochs, at most 0.1 % of the rows change
    their cluster; it does so for at most as many epochs again.

    It is minimised as k-means is, by turns: first every row is given to its nearest centre, then
    an epoch of steps pulls it there, centres and networks alike. After "k-means++" and "random",
    which have yet to find their clusters, a row goes to the nearest centre in every step instead;
    so does one of a file beyond memory, for which no label is kept.

    Parameters
    ----------
    epochs : int, optional
        Of eq. 15 until the rate has fallen. Default: 4 after a graph or labels, 50 after
        k-means++, 100 after random weights; more for few rows, so that there are 450 steps.
    n_init : int
        Runs; the one with the smallest clustering loss is kept.
    start : {"graph", "k-means++", "random"}, labels (n,) or (n, n_clusters), or a start object
        What comes before: a partition of the neighbour graph, distilled; reconstruction and
        k-means++ on the embedding; nothing, as in the paper; or a partition of your own.
    batch_size : int
        Smaller for few rows.
    learning_rate : float, optional
        Of Adam at the beginning of eq. 15. Default: 3e-4, 1e-3 after k-means++, or 1e-4 after views
        with augmentation.
    weight : float, optional
        λ, in the means of the authors' program. Default: 1.5 (0.45 after k-means++) · n_clusters ·
        the mean variance of a pixel or column as the networks see it, so that λ means the same for
        every kind of data and is the same for all runs; the paper's 0.01 after random weights.
    alternation : {"always", "epoch", "batch"}
        Who feels the clustering loss: both in every step, or centres and encoder in turn.
    normalize_gradient : bool
        Scale each centre's gradient to 10 % of its length, as the paper does.
    views : "auto", Views or None
        What the networks learn between the start and eq. 15: two views of a row pay the same
        attention to the centres. "auto" is `Views()` after a graph or labels, if there is a decoder
        and a row has other views: its neighbours in the start's graph and, with augmentation, moved
        copies of itself.
        None goes straight to eq. 15.

    Notes
    -----
    Without a decoder eq. 15 is `L_clu` alone, which is smallest where an encoder maps all rows to
    one point. The encoder then stays as the start has left it, and only the centres move.

    Examples
    --------
    >>> TellRecipe(start="k-means++").start.seedings
    10
    """

    epochs: int | None = None
    n_init: int = 1
    start: Any = "graph"
    batch_size: int = 256
    learning_rate: float | None = None
    weight: float | None = None
    alternation: str = "always"
    normalize_gradient: bool = True
    views: Any = AUTO

    name: ClassVar[str] = "tell"

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", resolve_start(self.start))
        object.__setattr__(self, "views", resolve_views(self.views))
        check_counts(self, "epochs", "n_init", "batch_size")
        if self.alternation not in ALTERNATIONS:
            allowed = ", ".join(map(repr, ALTERNATIONS))
            raise ParameterError(
                f"alternation={self.alternation!r} must be one of {allowed}; pass one"
            )
        for option in ("weight", "learning_rate"):
            value = getattr(self, option)
            if value is not None and not value > 0:
                raise ParameterError(f"{option} must be above 0 or None, got {value}; pass None")

    @property
    def minimised(self) -> tuple[str, ...]:
        """Both terms of eq. 15."""
        return "reconstruction", "clustering"

    def layer(self, embedding_dim: int, n_clusters: int) -> ClusterLayer:
        """Build the cluster layer."""
        return ClusterLayer(embedding_dim, n_clusters, normalize_gradient=self.normalize_gradient)

    def weight_of(self, history: Sequence[Record]) -> float:
        """λ as it was chosen for the rows of the fit: another one has another minimum."""
        return next(
            (line["weight"] for line in reversed(history) if "weight" in line),
            self.weight or PAPER_WEIGHT,
        )

    def shared(self, rows: AllRows) -> dict[str, Tensor]:
        """Compute what the starts of all runs need, and their views."""
        # Not where the recipe is made: `DeepTELL(start=...)` may still give it another start.
        if isinstance(self.start, GraphStart) and isinstance(self.views, Views):
            self.views.check_searched(self.start.neighbours)
        found: dict[str, Tensor] = self.start.shared(rows)
        return found | self.views.shared(rows, found) if isinstance(self.views, Views) else found

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the stages of the start, the views, and TELL."""
        # Without a decoder nothing but the views themselves keeps the embedding from collapsing.
        fitting = self.start.takes_views and task.model.decoder is not None
        views = Views() if self.views == AUTO and fitting else self.views
        follow = isinstance(views, Views)
        # Views learn what a movement leaves alone. A start that has to find its partition in moved
        # copies, too, loses small clusters, as it did with crops of photographs.
        yield from self.start.stages(replace(task, augment=None) if follow else task)
        place_centers = self.start.place_centers
        rate, gentle = self.start.tell_rate, self.start.tell_gentle
        if follow and (stage := views.stage(task, place_centers)):
            yield stage
            del stage  # its batches hold the rows in their own order
            place_centers = to_mean_directions  # the start's have been moved
            if task.augment:
                rate, gentle = AFTER_MOVED_VIEWS
        yield self._tell(task, place_centers, self.learning_rate or rate, gentle)

    def _objective(self, task: Task) -> Settling:
        model, embedded = task.model, task.model.decoder is None
        encoder = nn.Identity() if embedded else model.encoder
        alternation = Always(encoder=False) if embedded else ALTERNATIONS[self.alternation]()
        return Settling(
            encoder, model, len(task.x), alternation, by_turns=self.start.keeps_clusters
        )

    def _tell(
        self, task: Task, place_centers: Callable[[Task], None], rate: float, gentle: float
    ) -> Stage:
        embedded = task.model.decoder is None
        objective = self._objective(task)
        batches = task.batches(batch_rows(task, self.batch_size), embedded=embedded)
        optimizer = optim.Adam(objective.parameters(), lr=rate, fused=True)
        descent = self.epochs or max(self.start.tell_epochs, math.ceil(LEAST_STEPS / batches.steps))

        def prepare() -> None:
            place_centers(task)
            objective.weight_.fill_(self._weight(task))
            objective.predicted.copy_(objective.predict(batches))

        return Stage(
            "tell",
            objective,
            batches,
            optimizer,
            2 * descent,
            PartOf(cosine_to(gentle), 0.0, 2.0),
            hooks=[StopWhenSettled(after=descent)],
            prepare=prepare,
        )

    def _weight(self, task: Task) -> float:
        """Choose λ in the units of `L_rec`."""
        if self.weight is not None:
            return self.weight
        if self.start.tell_weight is not None:
            return float(self.start.tell_weight)
        relative = self.start.tell_relative_weight
        return relative * task.model.layer.n_clusters * variance(task.x) or PAPER_WEIGHT


class Settling(Clustering):
    """Eq. 15 that remembers, for the case of an interruption, its λ and what it predicted.

    Parameters
    ----------
    encoder : nn.Module
        The model's, or nothing where the rows are embedded already.
    model : DeepModel
    n_rows : int
    alternation : callable (epoch, step) -> Feels
    by_turns : bool
        Keep to the clusters of the last prediction for an epoch, as k-means does. `L_clu` then is
        the distance to those centres: never less than that to the nearest ones, and the same once
        the labels have settled. A row that is pulled to whatever is nearest now is let go as soon
        as a step that serves other rows, or `L_rec`, carries it across a border; where clusters
        overlap, as in photographs, they empty within a few epochs.
    """

    weight_: Tensor
    predicted: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        model: DeepModel,
        n_rows: int,
        alternation: Alternation,
        *,
        by_turns: bool = False,
    ) -> None:
        super().__init__(
            encoder, model.layer, model.decoder, alternation=alternation, idle_centers="skip"
        )
        self.by_turns = by_turns
        device = model.layer.weight.device
        self.register_buffer("weight_", torch.tensor(PAPER_WEIGHT, dtype=torch.float64))
        self.register_buffer("predicted", torch.full((n_rows,), -1, device=device))

    def own_centers(self, batch: Batch) -> Tensor | None:
        """Return the centre of the last prediction, where the rows have numbers."""
        if self.by_turns and len(batch.row):
            return self.predicted[batch.row]
        return super().own_centers(batch)

    def weights(self) -> dict[str, float]:
        """λ over the number of clusters, as in `Clustering`."""
        return {"clustering": self.weight_.item() / self.layer.n_clusters}

    @torch.no_grad()
    def predict(self, batches: Batches) -> Tensor:
        """Return the cluster (n,) of every row as the fitted model would give it."""
        self.eval()
        return torch.cat([self.layer(self.encoder(part)).labels for part in batches.in_order()])


class StopWhenSettled(Hook):
    """Stop when hardly any row changes its predicted cluster any more.

    Unlike `tell.core.loop.StopWhenSettled` it asks the model in evaluation mode: dropout and the
    statistics of a batch change some training labels for ever.

    Parameters
    ----------
    after : int
        Epochs in which the learning rate falls; the last of them may be the first that counts.
    """

    def __init__(self, after: int) -> None:
        self.after = after

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        """Compare the predictions with those of the epoch before."""
        objective: Any = loop.objective
        now = objective.predict(loop.batches)
        record["relabelled"] = int((now != objective.predicted).sum()) / len(now)
        record["weight"] = objective.weight_.item()
        objective.predicted.copy_(now)
        last = [line["relabelled"] for line in loop.history[self.after - 1 :][-PATIENCE:]]
        if len(last) == PATIENCE and max(last) <= SETTLED:
            loop.stop(SETTLED_LABELS)
