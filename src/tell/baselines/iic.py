"""Features of IIC (Ji et al., 2019), on which the paper's table 4 clusters.

A convolutional network with several softmax heads: some with as many outputs as there are classes,
some with five times as many. Each head maximises the mutual information between what it says of an
image and of a moved copy. The features of an image are what all heads say of it.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor, nn

from tell.baselines.pretraining import facts_of, kept_facts, torch_seed, train
from tell.core.augment import Jitter
from tell.core.autoencoder import channels_last_
from tell.core.batches import Batch, Batches
from tell.core.information import information
from tell.core.objective import Losses, Objective
from tell.core.schedule import one_cycle_rate

WIDTH = 64  # channels of the first of four layers; each has twice those of the one before
SUB_HEADS = 5
OVERCLUSTERS = 5  # times the clusters
BATCH = 512
RATE = 1e-3
DEGREES = 25.0
SIDES = (16 / 28, 20 / 28, 24 / 28)  # of the windows, as shares of the image's
STILL_SIDE = SIDES[1]


class Windows:
    """A window of every image at a random place, half of them turned, in other light.

    Examples
    --------
    >>> Windows()(torch.rand(2, 1, 28, 28), torch.Generator().manual_seed(0)).shape
    torch.Size([2, 1, 24, 24])
    """

    def __init__(self) -> None:
        self.jitter = Jitter()

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the windows (b, c, s, s)."""
        uniform = torch.rand(5, len(x), generator=generator, device=x.device)
        sides = torch.tensor(SIDES, device=x.device)
        side = sides[(uniform[0] * len(SIDES)).long()]
        angle = torch.deg2rad(DEGREES * (2 * uniform[1] - 1)) * (uniform[2] < 0.5)
        right, down = (1 - side) * (2 * uniform[3:] - 1)
        return self.jitter(windows(x, side, angle, right, down), generator)


def middle(x: Tensor) -> Tensor:
    """Return the window in the middle of every image: the view that does not move.

    >>> middle(torch.rand(2, 1, 8, 8)).shape
    torch.Size([2, 1, 8, 8])
    """
    zero = torch.zeros(len(x), device=x.device)
    return windows(x, zero + STILL_SIDE, zero, zero, zero)


def windows(x: Tensor, side: Tensor, angle: Tensor, right: Tensor, down: Tensor) -> Tensor:
    """Cut one window out of each image (b, c, h, w), brought to a size that halves three times."""
    cos, sin = side * torch.cos(angle), side * torch.sin(angle)
    matrix = torch.stack([cos, -sin, right, sin, cos, down], dim=1).reshape(-1, 2, 3)
    size = max(8, round(SIDES[-1] * min(x.shape[2:]) / 8) * 8)
    shape = [len(x), x.shape[1], size, size]
    grid = F.affine_grid(matrix.to(x.dtype), shape, align_corners=False)
    found = F.grid_sample(x, grid, padding_mode="zeros", align_corners=False)
    return found.contiguous(memory_format=torch.channels_last)


def backbone(channels: int, width: int = WIDTH) -> nn.Sequential:
    """Build four 5×5 convolutions with batch normalisation, a halving after each of three."""
    layers: list[nn.Module] = []
    for number in range(4):
        wide = width * 2**number
        convolution = nn.Conv2d(channels, wide, 5, padding=2, bias=False)
        layers += [convolution, nn.BatchNorm2d(wide), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if number < 3 else [nn.Flatten()]
        channels = wide
    return nn.Sequential(*layers)


class Iic(Objective):
    """Minus the mutual information of what each head says of two views of an image.

    Parameters
    ----------
    network : nn.Module
        Maps images to vectors (b, f).
    n_features : int
        f.
    n_clusters : int
    """

    def __init__(self, network: nn.Module, n_features: int, n_clusters: int) -> None:
        super().__init__()
        self.network = network
        many = OVERCLUSTERS * n_clusters
        self.clusters = nn.ModuleList(nn.Linear(n_features, n_clusters) for _ in range(SUB_HEADS))
        self.overclusters = nn.ModuleList(nn.Linear(n_features, many) for _ in range(SUB_HEADS))

    def losses(self, batch: Batch) -> Losses:
        """Return the mean over the sub-heads of each kind, for every image."""
        moved = batch.x if batch.moved is None else batch.moved
        said = self.say(torch.cat([middle(batch.x), moved]))
        terms = {
            name: -torch.stack([information(*head.chunk(2)) for head in heads]).mean(0)
            for name, heads in said.items()
        }
        return Losses(terms, said["clusters"][0][: len(batch.x)].argmax(1))

    def say(self, views: Tensor) -> dict[str, list[Tensor]]:
        """Return the soft assignment (b, k) of each sub-head, by its kind."""
        z = self.network(views)
        kinds = {"clusters": self.clusters, "overclusters": self.overclusters}
        return {
            name: [torch.softmax(head(z).float(), dim=1) for head in heads]
            for name, heads in kinds.items()
        }

    def features(self, x: Tensor) -> Tensor:
        """Return what all heads say of images that stand still, side by side."""
        said = self.say(middle(x))
        return torch.cat([head for heads in said.values() for head in heads], dim=1)


def iic_features(
    x: Tensor,
    n_clusters: int,
    *,
    epochs: int,
    seed: int,
    width: int = WIDTH,
    checkpoint: Path | None = None,
    precision: str = "float32",
    visible: bool = False,
) -> Tensor:
    """Train IIC on images (n, c, h, w) in [0, 1]; return their features (n, 30 · n_clusters).

    A training that was interrupted goes on from `checkpoint`; that of another one is refused.

    >>> iic_features(torch.rand(8, 1, 8, 8), 2, epochs=1, seed=0, width=2).shape
    torch.Size([8, 60])
    """
    with torch_seed(seed):
        size = middle(x[:1]).shape[2]
        wide = 8 * width * (size // 8) ** 2
        objective = Iic(backbone(x.shape[1], width), wide, n_clusters)
        channels_last_(objective)
        batches = Batches(x, BATCH, seed=seed, augment=Windows())
        facts = facts_of(batches, [width, n_clusters], epochs, precision)
        kept_facts(facts, checkpoint)
        train(
            objective,
            batches,
            epochs=epochs,
            rate=RATE,
            schedule=one_cycle_rate,
            name="iic features",
            checkpoint=checkpoint,
            facts=facts,
            precision=precision,
            visible=visible,
        )
    with torch.no_grad():
        return torch.cat([objective.features(part) for part in batches.in_order()])
