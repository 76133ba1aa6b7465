"""Deep embedded clustering."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn

from tell.baselines.pretraining import DeepClusterer, embed, train
from tell.core.batches import Batch, Batches
from tell.core.loop import StopWhenSettled
from tell.core.objective import Losses, Objective

LEARNING_RATE = 1e-4  # of the phase after pre-training


def student_assignment(z: Tensor, centers: Tensor) -> Tensor:
    """Soft assignment q (n, k) by Student's t with one degree of freedom (eq. 1 of DEC).

    >>> student_assignment(torch.zeros(1, 1), torch.tensor([[0.0], [1.0]])).round(decimals=4)
    tensor([[0.6667, 0.3333]])
    """
    kernel = 1 / (1 + torch.cdist(z, centers).square())
    return kernel / kernel.sum(dim=1, keepdim=True)


def target_distribution(q: Tensor) -> Tensor:
    """Sharpen q (n, k) and even out the clusters: p ∝ q² / Σ_i q_ij (eq. 3 of DEC).

    >>> target_distribution(torch.tensor([[0.75, 0.25], [0.25, 0.75]])).round(decimals=4)
    tensor([[0.9000, 0.1000],
            [0.1000, 0.9000]])
    """
    weight = q.square() / q.sum(dim=0)
    return weight / weight.sum(dim=1, keepdim=True)


class DECObjective(Objective):
    """KL(P ‖ Q) per row; the targets P (n, k) are renewed before every epoch."""

    def __init__(self, encoder: nn.Module, centers: Tensor, n_rows: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.cluster_centers = nn.Parameter(centers)
        self.register_buffer("targets", torch.zeros(n_rows, len(centers)))
        self.targets: Tensor

    def begin_epoch(self, epoch: int, batches: Batches) -> None:
        """Compute the targets from all rows."""
        with torch.no_grad():
            q = student_assignment(embed(self.encoder, batches), self.cluster_centers)
            self.targets.copy_(target_distribution(q))

    def losses(self, batch: Batch) -> Losses:
        """Return Σ_j p_ij log(p_ij / q_ij) of every row."""
        z = self.encoder(batch.x).float()  # whatever the products' precision
        q = student_assignment(z, self.cluster_centers)
        p = self.targets[batch.row]
        return Losses({"divergence": torch.xlogy(p, p / q).sum(dim=1)}, q.argmax(dim=1))

    def centers(self) -> Tensor:
        """Return the centres (k, p)."""
        return self.cluster_centers


class DEC(DeepClusterer):
    """Deep embedded clustering (Xie, Girshick & Farhadi, ICML 2016).

    Pre-trains an autoencoder, starts centres by k-means on its embedding, then minimises
    ``KL(P ‖ Q) = Σ_ij p_ij log(p_ij / q_ij)`` over encoder and centres, where q is Student's t of
    the distance to the centres and p the sharpened, balanced q. Stops once fewer than 0.1 % of the
    labels change. Time O(n · weights) per epoch, memory O(n (d + k) + weights).

    Parameters
    ----------
    n_clusters : int
    hidden : sequence of int
        Layer sizes of the encoder; the decoder mirrors them.
    embedding_dim : int
    pretrain_epochs, epochs : int
        Of the autoencoder, and at most of the clustering.
    batch_size : int
        At most; small data sets get smaller batches.
    random_state : int, RandomState or None
    checkpoint : path, optional
        File that keeps the state of the pre-training: an interrupted one goes on from there, and a
        finished one is not repeated. Methods that see the same rows with the same seed share it.
    precision : {"float32", "bfloat16"}
        Of the networks' products while they learn: see `tell.core.precision`.
    verbose : int
        1 shows progress.

    Attributes
    ----------
    labels_ : ndarray (n,)
    cluster_centers_ : ndarray (n_clusters, embedding_dim)
        In the embedding.
    history_ : list of dict
        One line per epoch of the pre-training and of the clustering, with its losses.

    Examples
    --------
    >>> X = [[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]]
    >>> model = DEC(2, hidden=(8,), embedding_dim=2, pretrain_epochs=5, random_state=0)
    >>> model.fit(X).cluster_centers_.shape
    (2, 2)
    """

    def _train(self, batches: Batches, rng: np.random.RandomState) -> tuple[Tensor, Tensor]:
        encoder, _ = self._pretrained(batches)
        embedding = embed(encoder, batches).numpy()
        start = KMeans(self.n_clusters, n_init=20, random_state=rng).fit(embedding)
        centers = torch.from_numpy(start.cluster_centers_.astype(np.float32))
        objective = DECObjective(encoder, centers, len(batches))
        self.history_ += train(
            objective,
            batches,
            epochs=self.epochs,
            rate=LEARNING_RATE,
            hooks=[StopWhenSettled()],  # once fewer than 0.1 % of the labels change
            precision=self.precision,
            visible=self.verbose > 0,
        ).history
        q = student_assignment(embed(objective.encoder, batches), objective.cluster_centers)
        return q.argmax(dim=1), objective.cluster_centers
