"""The pre-trained autoencoder that DEC, VaDE and the comparison's features start from."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tell.baselines._base import Clusterer, Labels, Matrix, require
from tell.core.autoencoder import Autoencoder, perceptron
from tell.core.batches import Batches
from tell.core.checkpoint import read_checkpoint
from tell.core.loop import Loop, Record, StopWhenSettled
from tell.core.objective import Objective, Reconstruction
from tell.core.schedule import Rate, constant_rate, one_cycle_rate
from tell.exceptions import ModelFileError

PRETRAINING_RATE = 2e-3  # at the top of its cycle


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
    settle: bool = False,
    name: str = "cluster",
    checkpoint: Path | None = None,
    facts: dict[str, Any] | None = None,
    visible: bool = False,
) -> list[Record]:
    """Train by Adam on the project's loop and return its history.

    `settle` stops once fewer than 0.1 % of the labels change; the others are the loop's.
    """
    optimizer = torch.optim.Adam(objective.parameters(), lr=rate, fused=True)
    hooks = [StopWhenSettled()] if settle else []
    history = Loop(
        objective,
        batches,
        optimizer,
        epochs=epochs,
        rate=schedule,
        hooks=hooks,
        name=name,
        checkpoint=checkpoint,
        facts=facts,
        visible=visible,
    ).run()
    objective.eval()
    return history


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
    visible: bool = False,
) -> Pretrained:
    """Train a fully connected autoencoder to rebuild its input; its embedding is unrestricted.

    What it rebuilds of rows in [0, 1] goes through a sigmoid, which is not part of the result: the
    decoder then gives logits. This and one cycle of the rate make the error of images much smaller
    after the same number of epochs than plain outputs and a constant rate do. A training that was
    interrupted goes on from `checkpoint`, and a finished one is not repeated.

    >>> with torch_seed(0):
    ...     autoencoder, history = pretrained(Batches(torch.rand(8, 5)), (4,), 2, epochs=1)
    >>> autoencoder.encoder(torch.rand(3, 5)).shape, len(history)
    (torch.Size([3, 2]), 1)
    """
    encoder, decoder = perceptron(batches.stored.shape[1:], embedding_dim, hidden)
    # These methods compare distances in the embedding: without the last step to the unit sphere.
    encoder = nn.Sequential(*list(encoder.children())[:-1])
    rebuild = nn.Sequential(decoder, nn.Sigmoid()) if is_share(batches.stored) else decoder
    objective = Reconstruction(encoder, rebuild)
    facts = {
        "rows": [*batches.stored.shape, float(batches.stored.sum(dtype=torch.float64))],
        "network": [*hidden, embedding_dim],
        "epochs": epochs,
        "seed": batches.seed,
    }
    if checkpoint is not None and checkpoint.exists():
        _check_same(facts, checkpoint)
    history = train(
        objective,
        batches,
        epochs=epochs,
        rate=PRETRAINING_RATE,
        schedule=one_cycle_rate,
        name="pre-train",
        checkpoint=checkpoint,
        facts=facts,
        visible=visible,
    )
    return Pretrained(Autoencoder(encoder, decoder), history)


def _check_same(facts: dict[str, Any], checkpoint: Path) -> None:
    kept = read_checkpoint(checkpoint)[1]
    if other := [name for name, value in facts.items() if kept.get(name) != value]:
        raise ModelFileError(
            f"checkpoint {checkpoint} must come from the same rows, network, epochs and seed, got "
            f"another {', '.join(other)}; delete it or name another file"
        )


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


def autoencoder_features(
    X: Matrix, *, embedding_dim: int = 10, epochs: int = 50, random_state: int = 0
) -> Matrix:
    """Features (n, embedding_dim) of a pre-trained 500-500-2000 autoencoder, for any method.

    >>> autoencoder_features(np.eye(4), embedding_dim=2, epochs=1).shape
    (4, 2)
    """
    with torch_seed(random_state):
        batches = seeded_batches(autoencoder_rows(X), 256, random_state)
        (encoder, _), _ = pretrained(batches, (500, 500, 2000), embedding_dim, epochs)
        return np.asarray(embed(encoder, batches).numpy())


class DeepClusterer(Clusterer):
    """Scale the rows, seed torch and leave the training to `_train`."""

    cluster_centers_: Matrix
    history_: list[Record]

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        hidden: Sequence[int] = (500, 500, 2000),
        embedding_dim: int = 10,
        pretrain_epochs: int = 50,
        epochs: int = 50,
        batch_size: int = 256,
        random_state: int | np.random.RandomState | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
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
        self.verbose = verbose

    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        for name in ("embedding_dim", "pretrain_epochs", "epochs", "batch_size"):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, got {value!r}")
        seed = int(rng.randint(np.iinfo(np.int32).max))
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
            visible=self.verbose > 0,
        )
        return autoencoder

    @abstractmethod
    def _train(self, batches: Batches, rng: np.random.RandomState) -> tuple[Tensor, Tensor]:
        """Labels (n,) and centres (k, p) after pre-training and the method's own training."""
