"""What a run sees: rows of a named set, pixels or features, at the size that the scale allows."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tell.baselines.iic import iic_features
from tell.baselines.pretraining import HIDDEN, PRETRAINING_RATE, autoencoder_features
from tell.core.autoencoder import channels_last_, convolutional
from tell.core.batches import Batches
from tell.core.loop import Loop
from tell.core.objective import Reconstruction
from tell.core.schedule import one_cycle_rate
from tell.data import datasets
from tell.exceptions import InputError
from tell.reproduce.recording import Recorder
from tell.reproduce.results import read_arrays, write_arrays
from tell.reproduce.spec import Run

BATCH = 256
TRAINED = ("deep-tell", "dec", "vade")  # estimators with networks of their own


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
class Workspace:
    """Where runs find their data and leave what they make.

    Attributes
    ----------
    folder : of all results
    data_dir : of the data sets, as `tell.data.datasets.load` takes it
    given : file with features X (n, d) and classes y (n,), instead of IIC's in table 4
    visible : whether training shows a progress bar
    precision : of the products in the training of networks
    """

    folder: Path
    data_dir: Path | None = None
    given: Path | None = None
    visible: bool = False
    precision: str = "float32"

    def inputs(self, run: Run) -> Inputs:
        """Load what a run sees; features are learned when first needed and then kept."""
        if self.sees_given(run):
            return Inputs(*self.given_rows, datasets.describe(run.data).classes)
        pixels = self._pixels(run)
        if run.method.features == "raw":
            return pixels
        file = feature_file(self.folder, run, self.precision_of(run))
        X = read_arrays(file).get("X")
        if X is None:
            X = self._learned(run, pixels, file)
            write_arrays(file, X=X)
        return Inputs(X, pixels.y, pixels.n_clusters)

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
        epochs = run.scale.feature_epochs[run.method.features]
        if run.method.features == "fcn":
            return autoencoder_features(
                pixels.X.reshape(len(pixels.X), -1),
                epochs=epochs,
                random_state=run.seed,
                checkpoint=pretraining_file(
                    self.folder, run, epochs, precision=self.precision_of(run)
                ),
                precision=self.precision_of(run),
                visible=self.visible,
            )
        wanted = run.method.snapshots and run.seed == 0
        snapshots = file.with_suffix(".snapshots.npz") if wanted else None
        x = torch.from_numpy(pixels.X)
        checkpoint = file.with_suffix(".checkpoint")
        if run.method.features == "iic":
            z = iic_features(
                x,
                pixels.n_clusters,
                epochs=epochs,
                seed=feature_seed(run),
                width=run.scale.iic_width,
                checkpoint=checkpoint,
                precision=self.precision,
                visible=self.visible,
            )
            checkpoint.unlink(missing_ok=True)
            return z.numpy()
        recorder = Recorder(x, pixels.y, pixels.n_clusters, snapshots=snapshots)
        z = convolutional_features(
            x,
            epochs,
            run.seed,
            recorder,
            checkpoint,
            precision=self.precision,
            visible=self.visible,
        )
        checkpoint.unlink(missing_ok=True)
        return z.numpy()

    def precision_of(self, run: Run) -> str:
        """Of the products in the training behind a run; without one they are in float32."""
        trained = run.method.estimator in TRAINED or run.method.features != "raw"
        return self.precision if trained and not self.sees_given(run) else "float32"

    def sees_given(self, run: Run) -> bool:
        """Whether the file of features takes the place of IIC's."""
        return run.method.features == "iic" and self.given is not None

    @cached_property
    def given_rows(self) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Features X (n, d) and classes y (n,) of the file."""
        if not (self.given and self.given.is_file()):
            raise InputError(f"--features must name an .npz file, got {self.given}")
        content = read_arrays(self.given)
        if not {"X", "y"} <= set(content):
            raise InputError(f"{self.given} must hold arrays X and y, got {sorted(content)}")
        X, y = content["X"].astype(np.float32), content["y"]
        if X.ndim != 2 or len(X) != len(y):
            raise InputError(
                f"{self.given} must hold X (n, d) and y (n,), got {X.shape} and {y.shape}"
            )
        return X, y

    @cached_property
    def given_digest(self) -> str:
        """What tells one file of features from another."""
        X, y = self.given_rows
        return hashlib.sha256(X.tobytes() + np.asarray(y, np.int64).tobytes()).hexdigest()[:16]


def feature_file(folder: Path, run: Run, precision: str = "float32") -> Path:
    """Where the features of a run's network are kept."""
    network = run.method.features
    epochs = run.scale.feature_epochs[network]
    name = f"{run.data}-{network}-{epochs}-epochs-seed-{feature_seed(run)}{_ending(precision)}"
    return folder / run.scale.name / "features" / f"{name}.npz"


def feature_seed(run: Run) -> int:
    """The seed of the network behind a run's features: IIC is trained once, as in the paper."""
    return 0 if run.method.features == "iic" else run.seed


def pretraining_file(
    folder: Path,
    run: Run,
    epochs: int,
    hidden: Sequence[int] = HIDDEN,
    precision: str = "float32",
) -> Path:
    """Where the autoencoder is kept that DEC, VaDE and the methods on FCN features share."""
    layers = "-".join(map(str, hidden))
    name = f"{run.data}-{layers}-{epochs}-epochs-seed-{run.seed}{_ending(precision)}.safetensors"
    return folder / run.scale.name / "features" / name


def _ending(precision: str) -> str:
    return "" if precision == "float32" else f"-{precision}"


def convolutional_features(
    x: Tensor,
    epochs: int,
    seed: int,
    recorder: Recorder | None = None,
    checkpoint: Path | None = None,
    *,
    precision: str = "float32",
    visible: bool = False,
) -> Tensor:
    """Train the paper's CNN by reconstruction alone; return the embedding (n, 10) of x.

    A training that was interrupted goes on from `checkpoint`.

    >>> convolutional_features(torch.rand(8, 1, 4, 4), epochs=1, seed=0).shape
    torch.Size([8, 10])
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        objective = Reconstruction(*convolutional(x.shape[1:]))
        channels_last_(objective)
        batches = Batches(x, BATCH, seed=seed)
        Loop(
            objective,
            batches,
            torch.optim.Adam(objective.parameters(), lr=PRETRAINING_RATE, fused=True),
            epochs=epochs,
            rate=one_cycle_rate,
            hooks=[] if recorder is None else [recorder],
            checkpoint=checkpoint,
            precision=precision,
            name="cnn features",
            visible=visible,
        ).run()
    objective.eval()
    with torch.no_grad():
        return torch.cat([objective.encoder(part) for part in batches.in_order()])
