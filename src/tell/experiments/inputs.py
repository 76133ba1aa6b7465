"""What a run sees: rows of a named set, pixels or features, at the size that the scale allows."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tell.core.autoencoder import build_autoencoder
from tell.core.batches import Batches
from tell.core.loop import Loop
from tell.core.objective import Reconstruction
from tell.data import datasets
from tell.exceptions import DataUnavailableError, InputError
from tell.experiments.recording import Recorder
from tell.experiments.results import write_arrays
from tell.experiments.spec import Run

BATCH = 256


@dataclass(frozen=True)
class Inputs:
    """Rows for an estimator.

    Attributes
    ----------
    X : ndarray (n, d) of features, or (n, c, h, w) of pixels in [0, 1]
    y : ndarray (n,), for scoring only
    n_clusters : int
    """

    X: NDArray[np.float32]
    y: NDArray[Any]
    n_clusters: int


@dataclass(frozen=True)
class Workshop:
    """Where runs find their data and leave what they make.

    Attributes
    ----------
    folder : of all results
    data_dir : of the data sets, as `tell.data.datasets.load` takes it
    given : file with features X (n, d) and classes y (n,), for table 4
    visible : whether training shows a progress bar
    """

    folder: Path
    data_dir: Path | None = None
    given: Path | None = None
    visible: bool = False

    def inputs(self, run: Run) -> Inputs:
        """Load what a run sees; features are learned when first needed and then kept."""
        if run.method.features == "given":
            return self._given(run)
        pixels = self._pixels(run)
        if run.method.features == "raw":
            return pixels
        file = feature_file(self.folder, run)
        if not file.exists():
            write_arrays(file, X=self._learned(run, pixels, file))
        with np.load(file) as kept:
            return Inputs(kept["X"], pixels.y, pixels.n_clusters)

    def _pixels(self, run: Run) -> Inputs:
        classes = datasets.describe(run.data).classes
        found = datasets.load(run.scale.data or run.data, self.data_dir)
        rows = np.flatnonzero(found.y < classes)
        if run.scale.rows is not None:
            # Another draw for every set that the small one stands for.
            draw = np.random.default_rng(zlib.crc32(run.data.encode()))
            rows = np.sort(draw.permutation(rows)[: run.scale.rows])
        X = np.asarray(found.X[rows], dtype=np.float32) / np.float32(found.scale)
        return Inputs(X.reshape(-1, *found.shape), np.asarray(found.y)[rows], classes)

    def _learned(self, run: Run, pixels: Inputs, file: Path) -> NDArray[np.float32]:
        network = run.method.features
        epochs = run.scale.feature_epochs[network]
        wanted = run.method.snapshots and run.seed == 0
        snapshots = file.with_suffix(".snapshots.npz") if wanted else None
        x = torch.from_numpy(pixels.X)
        recorder = Recorder(x, pixels.y, pixels.n_clusters, snapshots=snapshots)
        checkpoint = file.with_suffix(".checkpoint")
        z = learn_features(x, network, epochs, run.seed, recorder, checkpoint, visible=self.visible)
        checkpoint.unlink(missing_ok=True)
        return z.numpy()

    def _given(self, run: Run) -> Inputs:
        if self.given is None:
            raise DataUnavailableError(
                "features of another network must come in a file; pass --features file.npz with "
                "arrays X (70000, d) and y (70000,), training rows first"
            )
        with np.load(self.given, allow_pickle=False) as content:
            if not {"X", "y"} <= set(content):
                raise InputError(f"{self.given} must hold arrays X and y, got {sorted(content)}")
            X, y = np.asarray(content["X"], dtype=np.float32), np.asarray(content["y"])
        if X.ndim != 2 or len(X) != len(y):
            raise InputError(
                f"{self.given} must hold X (n, d) and y (n,), got {X.shape} and {y.shape}"
            )
        return Inputs(X, y, datasets.describe(run.data).classes)


def feature_file(folder: Path, run: Run) -> Path:
    """Where the features of a run's autoencoder are kept."""
    network = run.method.features
    epochs = run.scale.feature_epochs[network]
    name = f"{run.data}-{network}-{epochs}-epochs-seed-{run.seed}.npz"
    return folder / run.scale.name / "features" / name


def pretraining_file(folder: Path, run: Run, epochs: int) -> Path:
    """Where the pre-trained autoencoder is kept that DEC and VaDE share."""
    name = f"{run.data}-pretrained-{epochs}-epochs-seed-{run.seed}.safetensors"
    return folder / run.scale.name / "features" / name


def learn_features(
    x: Tensor,
    network: str,
    epochs: int,
    seed: int,
    recorder: Recorder | None = None,
    checkpoint: Path | None = None,
    *,
    visible: bool = False,
) -> Tensor:
    """Train an autoencoder by reconstruction alone; return the embedding (n, 10) of x.

    A training that was interrupted goes on from `checkpoint`.

    >>> learn_features(torch.rand(8, 1, 4, 4), "cnn", epochs=1, seed=0).shape
    torch.Size([8, 10])
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        objective = Reconstruction(*build_autoencoder(network, tuple(x.shape[1:])))
        batches = Batches(x, BATCH, seed=seed)
        optimizer = torch.optim.Adam(objective.parameters(), lr=1e-3, fused=True)
        hooks = [] if recorder is None else [recorder]
        Loop(
            objective,
            batches,
            optimizer,
            epochs=epochs,
            hooks=hooks,
            checkpoint=checkpoint,
            name=f"{network} features",
            visible=visible,
        ).run()
    objective.eval()
    with torch.no_grad():
        return torch.cat([objective.encoder(part) for part in batches.in_order()])
