"""The pre-trained autoencoder that DEC, VaDE and the comparison's features start from."""

from __future__ import annotations

import hashlib
import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tell.baselines.base import Clusterer, Labels, Matrix, require
from tell.core.autoencoder import Autoencoder, perceptron
from tell.core.batches import Batches
from tell.core.checkpoint import read_checkpoint
from tell.core.loop import Hook, Loop, Record
from tell.core.objective import Objective, Reconstruction
from tell.core.precision import check_precision
from tell.core.schedule import Rate, constant_rate, one_cycle_rate
from tell.exceptions import ConvergenceWarning, ModelFileError

PRETRAINING_RATE = 2e-3  # at the top of its cycle
SMALLEST_RATE = PRETRAINING_RATE / 16  # of trainings that start again
COLLAPSED = "collapsed"


def unit_power(X: Matrix) -> Matrix:
    """Scale all of X (n, d) by one number so that the mean square is 1 (Xie et al. 2016, sec. 4.3).

    >>> unit_power(np.array([[3.0, -3.0]]))
    array([[ 1., -1.]])
    """
    return np.asarray(X / (np.sqrt(np.mean(np.square(X))) or 1.0))


def autoencoder_rows(X: Matrix) -> Matrix:
    """Scale all of X (n, d) by one number: into [0, 1], or with negative entries to unit power.

    >>> autoencoder_rows(np.array([[0.0, 16.0]]))
    array([[0., 1.]])
    """
    return np.asarray(X / (X.max() or 1.0)) if X.min() >= 0 else unit_power(X)


def seeded_batches(X: Matrix, batch_size: int, seed: int) -> Batches:
    """Rows as float32 batches; an epoch has at least 32 steps, so that few rows train as well.

    >>> seeded_batches(np.zeros((1600, 3)), 256, seed=0).batch_size
    50
    """
    rows = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
    return Batches(rows, min(batch_size, max(32, len(X) // 32)), seed=seed)


@contextmanager
def torch_seed(seed: int) -> Iterator[None]:
    """Seed torch inside, leave the caller's random state as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def train(
    objective: Objective,
    batches: Batches,
    *,
    epochs: int,
    rate: float,
    schedule: Rate = constant_rate,
    hooks: Sequence[Hook] = (),
    name: str = "cluster",
    checkpoint: Path | None = None,
    facts: dict[str, Any] | None = None,
    precision: str = "float32",
    visible: bool = False,
) -> Loop:
    """Train by Adam on the project's loop and return it; all options are the loop's."""
    loop = Loop(
        objective,
        batches,
        torch.optim.Adam(objective.parameters(), lr=rate, fused=True),
        epochs=epochs,
        rate=schedule,
        hooks=hooks,
        name=name,
        checkpoint=checkpoint,
        facts=facts,
        precision=precision,
        visible=visible,
    )
    loop.run()
    objective.eval()
    return loop


class StopWhenCollapsed(Hook):
    """Stop a training that loses what it had learned, or that learns nothing.

    The one shows in an error half as large again as the smallest before it, the other at the end:
    in an error that did not fall in the second half and is no better than that of the mean row.
    Trainings of less than four epochs are not judged.
    """

    def __init__(self, rows: Tensor) -> None:
        self.mean_row_error = float(rows.var(dim=0, correction=0).mean())

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        """Compare the epochs so far."""
        if loop.epochs < 4:
            return
        errors = [line["reconstruction"] for line in loop.history]
        first, second = errors[: loop.epochs // 2], errors[loop.epochs // 2 :]
        lost = errors[-1] > 1.5 * min(errors)
        ended = len(errors) == loop.epochs
        stuck = ended and min(second) > max(0.99 * min(first), self.mean_row_error)
        if lost or stuck:
            loop.stop(COLLAPSED)


class Pretrained(NamedTuple):
    """An autoencoder and the history of its training."""

    autoencoder: Autoencoder
    history: list[Record]


def pretrained(
    batches: Batches,
    hidden: Sequence[int],
    embedding_dim: int,
    epochs: int,
    *,
    checkpoint: Path | None = None,
    precision: str = "float32",
    visible: bool = False,
) -> Pretrained:
    """Train a fully connected autoencoder to rebuild its input; its embedding is unrestricted.

    What it rebuilds of rows in [0, 1] goes through a sigmoid, which is not part of the result: the
    decoder then gives logits. This and one cycle of the rate make the error of images much smaller
    after the same number of epochs than plain outputs and a constant rate do. A rate that is too
    large for the data can make all units of a layer fall silent: the training then starts again
    with half the rate, and warns if no rate helps. One that was interrupted goes on from
    `checkpoint`, and a finished one is not repeated.

    >>> with torch_seed(0):
    ...     autoencoder, history = pretrained(Batches(torch.rand(8, 5)), (4,), 2, epochs=1)
    >>> autoencoder.encoder(torch.rand(3, 5)).shape, len(history)
    (torch.Size([3, 2]), 1)
    """
    facts = facts_of(batches, [*hidden, embedding_dim], epochs, precision)
    kept = kept_facts(facts, checkpoint)
    rate = float(kept.get("rate", PRETRAINING_RATE))
    while True:
        encoder, decoder = perceptron(batches.stored.shape[1:], embedding_dim, hidden)
        # These methods compare distances in the embedding: without the last step to the sphere.
        encoder = nn.Sequential(*list(encoder.children())[:-1])
        rebuild = nn.Sequential(decoder, nn.Sigmoid()) if is_share(batches.stored) else decoder
        loop = train(
            Reconstruction(encoder, rebuild),
            batches,
            epochs=epochs,
            rate=rate,
            schedule=one_cycle_rate,
            hooks=[StopWhenCollapsed(batches.stored)],
            name="pre-train",
            checkpoint=checkpoint,
            facts={**facts, "rate": rate},
            precision=precision,
            visible=visible,
        )
        collapsed = loop.stopped == COLLAPSED
        if collapsed and rate <= SMALLEST_RATE:
            warnings.warn(
                f"the pre-training collapsed at all rates down to {rate:g}: its features are no "
                "better than the mean row; look for constant or extreme columns in X",
                ConvergenceWarning,
                stacklevel=2,
            )
        if not collapsed or rate <= SMALLEST_RATE:
            return Pretrained(Autoencoder(encoder, decoder), loop.history)
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        rate /= 2


def facts_of(
    batches: Batches, network: Sequence[int], epochs: int, precision: str
) -> dict[str, Any]:
    """What decides a training, for its checkpoint; a network by its sizes."""
    return {
        "rows": hashlib.sha256(batches.stored.numpy().tobytes()).hexdigest(),
        "batches": batches.batch_size,
        "network": [*network],
        "epochs": epochs,
        "seed": batches.seed,
        "precision": precision,
    }


def kept_facts(facts: dict[str, Any], checkpoint: Path | None) -> dict[str, Any]:
    """Read what a checkpoint says of its training, if there is one; refuse that of another."""
    if checkpoint is None or not checkpoint.exists():
        return {}
    kept = {"precision": "float32"} | read_checkpoint(checkpoint)[1]  # earlier files had no other
    if other := [name for name, value in facts.items() if kept.get(name) != value]:
        raise ModelFileError(
            f"checkpoint {checkpoint} must come from the same rows, batches, network, epochs, "
            f"seed and precision, got another {', '.join(other)}; delete it or name another file"
        )
    return kept


def is_share(rows: Tensor) -> bool:
    """Whether every entry lies in [0, 1].

    >>> is_share(torch.tensor([0.0, 1.0])), is_share(torch.tensor([-1.0]))
    (True, False)
    """
    return bool(rows.min() >= 0 and rows.max() <= 1)


@torch.no_grad()
def embed(encoder: nn.Module, batches: Batches) -> Tensor:
    """Encode all rows in their order: (n, p).

    >>> embed(nn.Identity(), Batches(torch.eye(2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return torch.cat([encoder(part) for part in batches.in_order()])


HIDDEN = (500, 500, 2000)  # layers of Xie et al., and of the paper's fully connected network
BATCH_SIZE = 256


def training_seed(rng: np.random.RandomState) -> int:
    """Draw the seed of a training, so that whoever starts from the same generator trains alike.

    >>> training_seed(np.random.RandomState(0)) == training_seed(np.random.RandomState(0))
    True
    """
    return int(rng.randint(np.iinfo(np.int32).max))


def autoencoder_features(
    X: Matrix,
    *,
    embedding_dim: int = 10,
    epochs: int = 50,
    random_state: int = 0,
    checkpoint: Path | None = None,
    precision: str = "float32",
    visible: bool = False,
) -> Matrix:
    """Features (n, embedding_dim) of a pre-trained 500-500-2000 autoencoder, for any method.

    They are the ones that DEC and VaDE with this `random_state` start from, and may share their
    `checkpoint`.

    >>> autoencoder_features(np.eye(4), embedding_dim=2, epochs=1).shape
    (4, 2)
    """
    seed = training_seed(np.random.RandomState(random_state))
    with torch_seed(seed):
        batches = seeded_batches(autoencoder_rows(X), BATCH_SIZE, seed)
        (encoder, _), _ = pretrained(
            batches,
            HIDDEN,
            embedding_dim,
            epochs,
            checkpoint=checkpoint,
            precision=precision,
            visible=visible,
        )
        return np.asarray(embed(encoder, batches).numpy())


class DeepClusterer(Clusterer):
    """Scale the rows, seed torch and leave the training to `_train`."""

    cluster_centers_: Matrix
    history_: list[Record]

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        hidden: Sequence[int] = HIDDEN,
        embedding_dim: int = 10,
        pretrain_epochs: int = 50,
        epochs: int = 50,
        batch_size: int = BATCH_SIZE,
        random_state: int | np.random.RandomState | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        precision: str = "float32",
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.hidden = hidden
        self.embedding_dim = embedding_dim
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.precision = precision
        self.verbose = verbose

    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        for name in ("embedding_dim", "pretrain_epochs", "epochs", "batch_size"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, got {value!r}")
        check_precision(self.precision, "cpu")
        seed = training_seed(rng)
        with torch_seed(seed):
            batches = seeded_batches(autoencoder_rows(X), self.batch_size, seed)
            assigned, centers = self._train(batches, rng)
        # Clusters that got no row go last, so that the labels in use are 0, 1, 2, …
        used, labels = np.unique(assigned.numpy(), return_inverse=True)
        order = np.concatenate([used, np.setdiff1d(np.arange(self.n_clusters), used)])
        self.cluster_centers_ = centers.detach().numpy()[order]
        return np.asarray(labels, dtype=np.int64)

    def _pretrained(self, batches: Batches) -> Autoencoder:
        autoencoder, self.history_ = pretrained(
            batches,
            self.hidden,
            self.embedding_dim,
            self.pretrain_epochs,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            precision=self.precision,
            visible=self.verbose > 0,
        )
        return autoencoder

    @abstractmethod
    def _train(self, batches: Batches, rng: np.random.RandomState) -> tuple[Tensor, Tensor]:
        """Labels (n,) and centres (k, p) after pre-training and the method's own training."""
