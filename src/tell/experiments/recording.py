"""A hook that watches a training: metrics of every epoch, and pictures of a bounded number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor

from tell.core.loop import Hook, Loop, Record
from tell.experiments.results import write_arrays
from tell.metrics import evaluate

SAMPLE = 2000  # rows whose embedding is kept
MOST = 64  # snapshots kept of a training of any length

Snapshot = dict[str, NDArray[Any]]


class Recorder(Hook):
    """Extend the history by metrics and keep snapshots of the embedding and the centres.

    A training without centres (reconstruction alone) gets those of k-means on its embedding.

    Parameters
    ----------
    x : Tensor (n, ...)
        All rows as the network sees them.
    y : ndarray (n,)
    n_clusters : int
    snapshots : path, optional
        File for the snapshots, rewritten after every epoch; an interrupted training goes on there.
    """

    def __init__(
        self, x: Tensor, y: NDArray[Any], n_clusters: int, *, snapshots: Path | None = None
    ) -> None:
        self.y = y
        self.n_clusters = n_clusters
        self.file = snapshots
        chosen = np.sort(np.random.default_rng(0).permutation(len(x))[:SAMPLE])
        self.sample, self.sample_y = x[torch.from_numpy(chosen)], y[chosen]
        self.kept: dict[int, Snapshot] = {}
        self.stride = 1
        self.done = 0  # epochs of all stages
        self._stage, self._before = "", 0  # name of the stage, epochs of those before it
        if snapshots is not None and snapshots.exists():
            self.kept = read_snapshots(snapshots)

    def on_epoch_start(self, loop: Loop) -> None:
        """Keep what the model looks like before it has learned anything."""
        if loop.name != self._stage:
            self._stage, self._before = loop.name, self.done
        if self.file is not None and not self.kept:
            self.kept[0] = self._snapshot(loop)

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        """Score the labels that the training saw; keep a snapshot."""
        self.done = self._before + record["epoch"] + 1
        seen = (loop.labels >= 0).cpu().numpy()
        if len(seen) == len(self.y) and seen.any():
            scores = evaluate(self.y[seen], loop.labels.cpu().numpy()[seen])
            record.update(acc=scores.acc, nmi=scores.nmi, ari=scores.ari)
        if self.file is not None:
            self._keep(self._snapshot(loop))

    def _keep(self, snapshot: Snapshot) -> None:
        """Keep every epoch of a short training, every 2nd, 4th, … of a longer one, and the last."""
        self.kept[self.done] = snapshot
        while len(self.kept) > MOST:
            self.stride *= 2
            self._thin()
        self._thin()
        if self.file is not None:
            arrays = {f"{e}/{k}": v for e, shot in self.kept.items() for k, v in shot.items()}
            write_arrays(self.file, **arrays)

    def _thin(self) -> None:
        """Drop what lies between the strides, and what a resumed training has yet to reach."""
        past = {e: shot for e, shot in self.kept.items() if e <= self.done}
        self.kept = {e: s for e, s in past.items() if e % self.stride == 0 or e == self.done}

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


def read_snapshots(file: Path) -> dict[int, Snapshot]:
    """Read what a recorder wrote: arrays z, centers, decoded and y by epoch."""
    found: dict[int, Snapshot] = {}
    with np.load(file, allow_pickle=False) as content:
        for name in content:
            epoch, _, array = name.partition("/")
            found.setdefault(int(epoch), {})[array] = content[name]
    return dict(sorted(found.items()))
