"""The default recipe: the paper's quality in minutes on ordinary hardware, without labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from sklearn.cluster import KMeans
from torch import nn, optim

from tell.core.batches import Batches
from tell.core.layer import ClusterLayer
from tell.core.objective import Clustering, Reconstruction
from tell.core.schedule import Always, cosine_rate
from tell.estimators._deep_run import Recipe, Stage, Task


@dataclass(frozen=True)
class FastRecipe(Recipe):
    """Reconstruct first, seed the centres on the embedding, then learn both together."""

    epochs: int = 20
    n_init: int = 1
    batch_size: int = 256
    pretrain_epochs: int = 10
    rate: float = 1e-3

    name: ClassVar[str] = "fast"
    table_network: ClassVar[str] = "mlp"

    def layer(self, embedding_dim: int, n_clusters: int) -> ClusterLayer:
        """Build the cluster layer."""
        return ClusterLayer(embedding_dim, n_clusters)

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the stages."""
        model = task.model
        batches = Batches(task.x, self.batch_size, seed=task.seed, augment=task.augment)
        if model.decoder is not None:
            objective = Reconstruction(model.encoder, model.decoder)
            optimizer = optim.Adam(objective.parameters(), lr=self.rate)
            yield Stage("pretrain", objective, batches, optimizer, self.pretrain_epochs)
        clustering = Clustering(model.encoder, model.layer, model.decoder, alternation=Always())
        optimizer = optim.Adam(clustering.parameters(), lr=self.rate)

        def prepare() -> None:
            z = nn.functional.normalize(model.embed(task.x), dim=1).cpu().numpy()
            k_means = KMeans(model.layer.n_clusters, n_init=5, random_state=task.seed).fit(z)
            model.layer.set_centers_(torch.from_numpy(k_means.cluster_centers_))

        yield Stage(
            "cluster", clustering, batches, optimizer, self.epochs, cosine_rate, prepare=prepare
        )
