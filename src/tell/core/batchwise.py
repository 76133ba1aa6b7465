"""Fit centres batch by batch: the paper's own way, with the layer's normalised gradient.

`core/engine.py` takes the layer's step in closed form. Here `ClusterLayer` is trained as the paper
trains it (section 3.2.3): a batch's loss is differentiated, each centre's gradient is scaled to a
tenth of its length, and the centre goes back to the sphere. The paper's fixed step stays within
lemma 2's radius of the optimum for ever; along half a cosine to zero the radius closes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tell.core.assignment import DenseRows, Rows, assign, totals
from tell.core.batches import Batch, Batches
from tell.core.engine import Descent, Fit, Run, mean_loss
from tell.core.layer import ClusterLayer, Geometry, unit
from tell.core.loop import Hook, Loop, Record
from tell.core.objective import Losses, Objective
from tell.core.schedule import cosine_rate
from tell.core.seeding import Seeding, revive, seed_centers
from tell.exceptions import InputError

BATCH_ROWS = 256
FEWEST_EPOCHS = 10
FEWEST_STEPS = 1000
SETTLED = 0.001  # share of labels that may still change in the last epoch
SEEDING_ROWS = 2048  # or more for many clusters
SEEDING_ROWS_PER_CLUSTER = 32


class LayerAlone(Objective):
    """The loss of k-means on rows as they are (eq. 13), for the layer alone.

    Parameters
    ----------
    layer : ClusterLayer
    weight : Tensor (n,), optional
        How much each row counts.
    """

    weight: Tensor | None

    def __init__(self, layer: ClusterLayer, weight: Tensor | None = None) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("weight", None if weight is None else weight / weight.mean())
        self._share = torch.ones(0)

    def losses(self, batch: Batch) -> Losses:
        """Return the squared distance of every row to its centre, times its weight."""
        out = self.layer(batch.x)
        weight = torch.ones_like(out.loss) if self.weight is None else self.weight[batch.row]
        counts = weight.new_zeros(self.layer.n_clusters).index_add_(0, out.labels, weight)
        self._share = counts / len(weight)
        return Losses({"clustering": out.loss * weight}, out.labels)

    def gradients_ready(self) -> None:
        """Let a euclidean centre feel the mean of its rows, however few they are.

        On the sphere the layer itself scales the gradient. Here half of the mean squared distance
        has the gradient `centre − mean`, so that a rate of 1 goes to the mean of the batch.
        """
        gradient = self.layer.weight.grad
        if self.layer.geometry == "euclidean" and gradient is not None:
            # W = 2αΩ: the gradient with respect to Ω is 2α times this one, and so is the step.
            scale = (2 * self.layer.alpha) ** 2 / 2
            gradient.mul_(scale / self._share.clamp(min=1e-30)[:, None])

    def centers(self) -> Tensor:
        """Return the layer's centres (k, d)."""
        return self.layer.centers


class ReviveEmpty(Hook):
    """Move centres that no row chose in an epoch to the rows that are worst served."""

    def __init__(self, rows: Rows, layer: ClusterLayer) -> None:
        self.rows = rows
        self.layer = layer
        self.revived: list[int] = []

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        """Look for empty clusters; write down how many were revived."""
        record["revived"] = 0
        if record["smallest"] != 0:
            return
        centers = self.layer.centers.detach().clone()
        assignment = assign(self.rows, centers, self.layer.geometry)
        part = totals(self.rows, assignment.labels, len(centers), self.layer.geometry)
        record["revived"] = len(revive(self.rows, assignment, part, centers, self.layer.geometry))
        self.layer.set_centers_(centers)


def fit_batchwise(
    rows: Rows,
    n_clusters: int,
    *,
    init: Seeding | Tensor = "k-means++",
    geometry: Geometry = "sphere",
    n_init: int = 1,
    max_iter: int = 300,
    seed: int = 0,
    report: Callable[..., None] = lambda **_: None,
) -> Fit:
    """Cluster dense rows by the layer's own steps; of several runs the smallest loss is kept.

    A run takes ten epochs of batches of 256 rows, or a thousand steps where that is more, and at
    most `max_iter` epochs.
    """
    if not isinstance(rows, DenseRows):
        raise InputError("solver='sgd' needs dense rows, got a sparse matrix; pass solver='lloyd'")
    n_runs = 1 if isinstance(init, Tensor) else n_init
    runs: list[Run] = []
    histories: list[list[dict[str, float]]] = []
    for number in range(n_runs):
        run, history = _run(rows, n_clusters, init, geometry, max_iter, seed + number, report)
        runs.append(run)
        histories.append(history)
    best = min(range(n_runs), key=lambda number: runs[number].loss)
    runs[best].chosen = True
    found = runs[best].descent
    counts = found.totals.counts.to(rows.example.dtype)
    return Fit(found, found.assignment, counts, found.loss, found.n_iter, runs, histories[best])


def _run(
    rows: DenseRows,
    n_clusters: int,
    init: Seeding | Tensor,
    geometry: Geometry,
    max_iter: int,
    seed: int,
    report: Callable[..., None],
) -> tuple[Run, list[dict[str, float]]]:
    layer = _layer(rows, n_clusters, init, geometry, seed)
    batches = Batches(rows.x, BATCH_ROWS, seed=seed)
    epochs = min(max_iter, max(FEWEST_EPOCHS, math.ceil(FEWEST_STEPS / batches.steps)))
    objective = LayerAlone(layer, rows.weight)
    optimizer = torch.optim.SGD(objective.parameters(), lr=1.0)
    hooks = [ReviveEmpty(rows, layer), _Report(rows, report)]
    history = Loop(
        objective, batches, optimizer, epochs=epochs, rate=cosine_rate, hooks=hooks, name="layer"
    ).run()
    centers = layer.centers.detach().clone()
    if geometry == "sphere":
        centers = unit(centers)  # the layer lets a length differ from 1 in its last digits
    assignment = assign(rows, centers, geometry)
    part = totals(rows, assignment.labels, n_clusters, geometry)
    loss = mean_loss(rows, assignment)
    settled = (history[-1]["changed"] or 0.0) <= max(SETTLED, 1 / rows.shape[0])
    descent = Descent(rows, centers, assignment, part, loss, len(history), settled)
    lines = [
        {"loss": line["clustering"], "rows": rows.shape[0], "revived": line["revived"]}
        for line in history
    ]
    return Run(seed, loss, len(history), descent), lines


class _Report(Hook):
    def __init__(self, rows: Rows, report: Callable[..., None]) -> None:
        self.rows = rows
        self.report = report

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        self.report(loss=record["clustering"], rows=self.rows.shape[0], revived=record["revived"])


def _layer(
    rows: DenseRows, n_clusters: int, init: Seeding | Tensor, geometry: Geometry, seed: int
) -> ClusterLayer:
    """Build the layer with its centres at the seeding, drawn from a sample of the rows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):  # what a new layer draws is overwritten at once
        layer = ClusterLayer(
            rows.shape[1], n_clusters, geometry=geometry, dtype=rows.example.dtype
        ).to(rows.example.device)
    if isinstance(init, Tensor):
        centers = init.clone()
    else:
        size = max(SEEDING_ROWS, SEEDING_ROWS_PER_CLUSTER * n_clusters)
        chosen = torch.randperm(rows.shape[0], generator=generator)[:size].sort().values
        centers = seed_centers(rows.take(chosen), n_clusters, init, geometry, generator)
    layer.set_centers_(centers)
    return layer
