"""A hook that watches a training: metrics of every epoch, and pictures of a bounded number."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor

from tell.core.loop import Hook, Loop, Record
from tell.core.objective import Losses
from tell.metrics import evaluate
from tell.reproduce.results import read_arrays, write_arrays

SAMPLE = 2000  # rows whose embedding is kept
EVALUATIONS = 10  # per epoch, in a training with fewer epochs than this
MOST = 100  # snapshots of a training of any length, about

Snapshot = dict[str, NDArray[Any]]


class Recorder(Hook):
    """Extend the history by metrics and keep snapshots of the embedding and the centres.

    Every epoch gets the metrics of the labels that the training saw. With snapshots it also gets
    `evaluations`: metrics of a fixed sample of rows and the mean losses since the evaluation
    before. A short training is evaluated ten times in each epoch, a long one after every 5th, 10th,
    50th, … epoch, and each after its last.

    A training without centres (reconstruction alone) gets those of k-means on its embedding.

    Parameters
    ----------
    x : Tensor (n, ...)
        All rows as the network sees them.
    y : ndarray (n,)
    n_clusters : int
    snapshots : path, optional
        File for the snapshots, rewritten at every evaluation; an interrupted training goes on
        there.
    """

    def __init__(
        self, x: Tensor, y: NDArray[Any], n_clusters: int, *, snapshots: Path | None = None
    ) -> None:
        self.y = y
        self.n_clusters = n_clusters
        self.file = snapshots
        chosen = np.sort(np.random.default_rng(0).permutation(len(x))[:SAMPLE])
        self.sample, self.sample_y = x[torch.from_numpy(chosen)], y[chosen]
        self.kept = {} if snapshots is None else read_snapshots(snapshots)
        self._evaluations: list[Record] = []  # of this epoch
        self._terms: list[dict[str, float]] = []  # of the steps since the last evaluation

    def on_epoch_start(self, loop: Loop) -> None:
        """Keep what the model looks like before it has learned anything."""
        if self.file is not None and not self.kept:
            self.kept[0.0] = self._snapshot(loop)

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        """Evaluate a short training within its epochs."""
        if self.file is None:
            return
        self._terms.append({k: float(v.detach().mean()) for k, v in losses.terms.items()})
        if loop.epochs >= EVALUATIONS:
            return
        (epoch, step), steps = loop.position, loop.batches.steps
        parts = (round(part * steps / EVALUATIONS) for part in range(1, EVALUATIONS))
        if step < steps and step in parts:
            self._evaluate(loop, loop.epochs_before + round(epoch + step / steps, 1))

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        """Score the labels that the training saw; evaluate."""
        seen = (loop.labels >= 0).cpu().numpy()
        if len(seen) == len(self.y) and seen.any():
            scores = evaluate(self.y[seen], loop.labels.cpu().numpy()[seen])
            record.update(acc=scores.acc, nmi=scores.nmi, ari=scores.ari)
        if self.file is None:
            return
        epoch = loop.position[0]
        last = epoch == loop.epochs or loop.stopped is not None
        if last or epoch % stride(loop.epochs) == 0:
            self._evaluate(loop, loop.epochs_before + epoch)
        record["evaluations"], self._evaluations = self._evaluations, []

    def _evaluate(self, loop: Loop, epoch: float) -> None:
        shot = self._snapshot(loop)
        scores = evaluate(self.sample_y, nearest_center(shot))
        found: Record = {"epoch": epoch, "acc": scores.acc, "nmi": scores.nmi, "ari": scores.ari}
        for name in self._terms[-1] if self._terms else ():
            found[name] = fmean(terms[name] for terms in self._terms)
        self._evaluations.append(found)
        self._terms = []
        # A resumed training drops what it has yet to reach.
        self.kept = {e: kept for e, kept in self.kept.items() if e < epoch} | {epoch: shot}
        if self.file is not None:
            write_snapshots(self.file, self.kept)

    @torch.no_grad()
    def _snapshot(self, loop: Loop) -> Snapshot:
        objective: Any = loop.objective
        objective.eval()
        z = objective.encoder(self.sample.to(loop.batches.device))
        centers = objective.centers()
        if centers is None:
            found = KMeans(self.n_clusters, n_init=3, random_state=0).fit(z.cpu().numpy())
            unit = torch.from_numpy(found.cluster_centers_).to(z)
            centers = torch.nn.functional.normalize(unit, dim=1)
        decoder = objective.decoder
        decoded = decoder(centers) if decoder is not None else centers
        objective.train()
        arrays = {"z": z, "centers": centers, "decoded": decoded}
        numpy = {k: v.cpu().numpy().astype(np.float32) for k, v in arrays.items()}
        return {**numpy, "y": self.sample_y}


def stride(epochs: int) -> int:
    """Epochs from one evaluation to the next: 1, 5, 10, 50, …, so that round ones stay.

    >>> stride(30), stride(3000)
    (1, 50)
    """
    found = 1
    while epochs > found * MOST:
        found *= 5 if str(found).startswith("1") else 2
    return found


def nearest_center(shot: Snapshot) -> NDArray[Any]:
    """The centre of each row of a snapshot (n,): on the sphere the one with the largest product."""
    return np.argmax(shot["z"] @ shot["centers"].T, axis=1)


def write_snapshots(file: Path, found: dict[float, Snapshot]) -> None:
    """Write snapshots by epoch, whole or not at all."""
    write_arrays(file, **{f"{e:g}/{k}": v for e, shot in found.items() for k, v in shot.items()})


def read_snapshots(file: Path) -> dict[float, Snapshot]:
    """Read them: arrays z, centers, decoded and y by epoch; empty if there are none to read."""
    found: dict[float, Snapshot] = {}
    for name, values in read_arrays(file).items():
        epoch, _, array = name.partition("/")
        found.setdefault(float(epoch), {})[array] = values
    return dict(sorted(found.items()))
