"""What is minimised: losses per sample and their weighted sum.

An `Objective` is a module that owns everything trainable and answers one question: the losses of a
batch, one value per sample and term. The loop averages, weights and differentiates them; nothing
else does. To add a method, subclass `Objective` and write `losses`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from tell.core.batches import Batch, Batches
from tell.core.layer import ClusterLayer
from tell.core.schedule import Alternation, ByEpoch, Feels
from tell.exceptions import InputError

PAPER_WEIGHT = 0.01


class Losses(NamedTuple):
    """What an objective says of one batch.

    Attributes
    ----------
    terms : dict of Tensor (b,)
        One value per sample for every term.
    labels : Tensor (b,) or None
        The assignment seen while training; the history counts the ones that changed.
    """

    terms: dict[str, Tensor]
    labels: Tensor | None = None


class Objective(nn.Module):
    """Base of everything that `tell.core.loop.Loop` can train.

    Parameters, buffers and submodules of the subclass are what the optimiser moves and what a
    checkpoint keeps. Keep whatever must survive an interruption in them.

    Examples
    --------
    >>> class Shrink(Objective):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.size = nn.Parameter(torch.ones(2))
    ...     def losses(self, batch):
    ...         return Losses({"shrink": (batch.x * self.size).square().sum(1)})
    >>> losses = Shrink().losses(Batch(torch.ones(3, 2), torch.arange(3)))
    >>> losses.terms["shrink"].tolist()
    [2.0, 2.0, 2.0]
    """

    def losses(self, batch: Batch) -> Losses:
        """Return every term's value for every sample. This part may be compiled."""
        raise NotImplementedError

    def weights(self) -> dict[str, float]:
        """Return the weight of each term's mean in the total; a term left out weighs 1."""
        return {}

    def centers(self) -> Tensor | None:
        """Return the centres (k, d), if there are any; the history reports their movement."""
        return None

    def begin_epoch(self, epoch: int, batches: Batches) -> None:
        """Prepare an epoch, for example by a pass over `batches.in_order()`."""

    def begin_step(self, epoch: int, step: int) -> None:
        """Prepare a step."""

    def gradients_ready(self) -> None:
        """Change the gradients between differentiation and the optimiser's step."""

    def weighted_sum(self, losses: Losses) -> Tensor:
        """Average each term over the samples and add them up, weighted: the only place for it."""
        weights = self.weights()
        means = [weights.get(name, 1.0) * term.mean() for name, term in losses.terms.items()]
        return torch.stack(means).sum()


def squared_error(x: Tensor, reconstruction: Tensor) -> Tensor:
    """Return the mean over pixels (or columns) of the squared error of every sample (b,).

    A reconstruction may have its samples in another shape, such as flat ones of images.

    >>> squared_error(torch.zeros(1, 4), torch.full((1, 4), 2.0)).tolist()
    [4.0]
    """
    if reconstruction.shape != x.shape:  # subtraction would broadcast it
        if len(reconstruction) != len(x) or reconstruction.numel() != x.numel():
            raise InputError(
                f"reconstruction must have the shape {tuple(x.shape)} of the rows, got "
                f"{tuple(reconstruction.shape)}; change the decoder's output"
            )
        reconstruction = reconstruction.reshape(x.shape)
    return (x - reconstruction).square().flatten(1).mean(1)


def table_loss(mean_loss: float, n_clusters: int) -> float:
    """Return `L_clu` as tables S1 and S2 print it, from the mean squared distance 2 - 2 cos.

    There it is 0.01 times the mean over samples and clusters of `2 - δ_ij W_jᵀz_i`, in which the
    clusters that a sample does not belong to count 2 each.

    >>> round(table_loss(2 - 2 * 0.9305695, 10), 9)
    0.018138861
    """
    return PAPER_WEIGHT * (2 - (2 - mean_loss) / n_clusters)


class Reconstruction(Objective):
    """`L_rec` alone: learn to encode and decode.

    Parameters
    ----------
    encoder, decoder : nn.Module
    """

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def losses(self, batch: Batch) -> Losses:
        """Return the reconstruction error, of the moved rows if there are any."""
        x = batch.x if batch.moved is None else batch.moved
        return Losses({"reconstruction": squared_error(x, self.decoder(self.encoder(x)))})


class Clustering(Objective):
    """`L_rec + λ L_clu` (eq. 15) with the means of the authors' program.

    `L_rec` is a mean over samples and pixels, `L_clu` one over samples and clusters, so that λ
    has the same effect for every image size and every number of clusters.

    Parameters
    ----------
    encoder : nn.Module
    layer : ClusterLayer
    decoder : nn.Module, optional
        Without one there is no reconstruction loss.
    alternation : callable (epoch, step) -> Feels
    weight : float
        λ.
    idle_centers : {"decay", "skip"}
        What the optimiser does for the centres in a step in which they do not feel the loss.
        "decay" hands it a zero gradient: they rest while its running averages fade, as in the
        PyTorch of the paper (1.7). "skip" hands it none: nothing changes.
    """

    def __init__(
        self,
        encoder: nn.Module,
        layer: ClusterLayer,
        decoder: nn.Module | None = None,
        *,
        alternation: Alternation | None = None,
        weight: float = PAPER_WEIGHT,
        idle_centers: str = "decay",
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.layer = layer
        self.decoder = decoder
        self.alternation = alternation or ByEpoch()
        self.weight = weight
        self.idle_centers = idle_centers
        self.feels = Feels(True, True)

    def begin_step(self, epoch: int, step: int) -> None:
        """Ask the alternation who feels the clustering loss now."""
        self.feels = self.alternation(epoch, step)

    def losses(self, batch: Batch) -> Losses:
        """Return both losses; moved rows are pulled to the centre of the rows as they are."""
        x = batch.x if batch.moved is None else batch.moved
        z = self.encoder(x)
        terms = {}
        if self.decoder is not None:
            terms["reconstruction"] = squared_error(x, self.decoder(z))
        out = self.layer(z if self.feels.encoder else z.detach())
        own = self.own_centers(batch)
        terms["clustering"] = (
            out.loss if own is None else -out.scores.gather(1, own[:, None]).squeeze(1)
        )
        return Losses(terms, out.labels if own is None or batch.moved is None else own)

    def own_centers(self, batch: Batch) -> Tensor | None:
        """Return the centre (b,) to which each row is pulled; None: the nearest one."""
        if batch.moved is None:
            return None
        with torch.no_grad():
            return self.layer(self.encoder(batch.x)).labels

    def weights(self) -> dict[str, float]:
        """λ over the number of clusters: the mean over clusters without its constants."""
        return {"clustering": self.weight / self.layer.weight.shape[0]}

    def centers(self) -> Tensor:
        """Return the layer's centres (k, d)."""
        return self.layer.centers

    def gradients_ready(self) -> None:
        """Leave the centres alone in a step that belongs to the encoder."""
        if not self.feels.centers:
            decay = self.idle_centers == "decay"
            self.layer.weight.grad = torch.zeros_like(self.layer.weight) if decay else None
