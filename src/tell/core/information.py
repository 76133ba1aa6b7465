"""Two views of a thing pay the same attention to the centres: mutual information (IIC, Ji et al.).

The soft assignment of eq. 7 is a distribution over the centres. Drawn from it for a row and for
another view of the row, two labels tell as much of each other as possible where both are certain,
where they agree, and where not all rows share one label: the loss separates and pulls together at
once, and everything goes through the scores of `ClusterLayer`, whose centres stay the explanation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tell.core.adversarial import adversarial
from tell.core.batches import Batch
from tell.core.layer import ClusterLayer
from tell.core.objective import Losses, Objective, squared_error
from tell.exceptions import InputError

TEMPERATURE = 0.2


def joint(first: Tensor, second: Tensor) -> Tensor:
    """Return the joint distribution (k, k) of the labels of two views (b, k), symmetrised.

    >>> certain = torch.eye(2)
    >>> joint(certain, certain).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    >>> joint(certain, certain.flip(0)).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    both = first.T @ second / len(first)
    return (both + both.T) / 2


def information(
    first: Tensor, second: Tensor, prior: Tensor | None = None, *, balance: float = 1.0
) -> Tensor:
    """Return what every row adds to the mutual information of its views' labels, in nats (b,).

    The mean over the rows is `I = H(m) - H(label of one view | label of the other)` with m, the
    mean assignment, from 0 to log k. `H(m)` likes clusters of equal size. With a prior, its place
    takes `log k - balance · KL(m ‖ prior)`, which for balance 1 is the same for equal sizes and
    otherwise likes those of the prior.

    Parameters
    ----------
    first, second : Tensor (b, k)
        Soft assignments; rows sum to one.
    prior : Tensor (k,), optional
        Expected sizes of the clusters; positive, sum to one.
    balance : float
        Weight of the sizes. Where views often disagree, one cluster for all that is uncertain
        makes labels easier to tell from each other, and 1 is too little to forbid it (IMSAT takes
        4, SCAN 5). Without a prior it has no effect.

    Examples
    --------
    >>> information(torch.eye(2), torch.eye(2)).tolist()  # log 2: one view tells the other
    [0.6931471824645996, 0.6931471824645996]
    >>> unsure = torch.full((2, 2), 0.5)
    >>> information(unsure, unsure).tolist()
    [0.0, 0.0]
    """
    with torch.autocast(first.device.type, enabled=False):  # small shares need all digits
        return _information(first, second, prior, balance)


def _information(first: Tensor, second: Tensor, prior: Tensor | None, balance: float) -> Tensor:
    both = joint(first, second)
    size = both.sum(1)
    # Where nothing is, 0 log 0 = 0, and the gradient stays finite.
    tiny = torch.finfo(both.dtype).tiny
    log_size = size.clamp_min(tiny).log()
    gain = both.clamp_min(tiny).log() - log_size[:, None] - log_size
    value = (first @ gain * second).sum(1)
    if prior is None:
        return value
    relative = (prior * len(prior)).log() - (balance - 1) * (log_size - prior.log())
    return value + (first + second) @ relative / 2


class InvariantInformation(Objective):
    """`L_rec` - weight · mutual information of the soft assignments of two views of each row.

    Needs batches with partners: see `tell.core.batches.Batches`.

    Parameters
    ----------
    encoder : nn.Module
    layer : ClusterLayer
    decoder : nn.Module or None
        Learns on, so that it still fits the encoder when eq. 15 takes over.
    prior : Tensor (k,), optional
        Expected sizes of the clusters, as of `information`. It is kept as it is, not copied.
    balance : float
        Weight of these sizes, as of `information`.
    weight : float
        Of the mutual information, beside the reconstruction.
    temperature : float
        τ of eq. 7.
    decoded : float
        Share of each batch that is decoded: reconstruction needs fewer rows than clustering.
    radius : Tensor (n,), optional
        Move the second view of each row so far to where its assignment changes most
        (`tell.core.adversarial`), in the units of the rows. It is kept as it is, not copied.

    Examples
    --------
    >>> layer = ClusterLayer(2, 2)
    >>> layer.set_centers_(torch.eye(2))
    >>> objective = InvariantInformation(nn.Identity(), layer)
    >>> x, row = torch.eye(2), torch.arange(2)
    >>> same = objective.losses(Batch(x, row, partner=x)).terms["views"].mean()
    >>> bool(same < -0.69)  # nearly -log 2
    True
    """

    prior: Tensor
    weight: Tensor
    radius: Tensor | None

    def __init__(
        self,
        encoder: nn.Module,
        layer: ClusterLayer,
        decoder: nn.Module | None = None,
        *,
        prior: Tensor | None = None,
        balance: float = 1.0,
        weight: float = 1.0,
        temperature: float = TEMPERATURE,
        decoded: float = 0.25,
        radius: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.layer = layer
        self.decoder = decoder
        self.balance = balance
        self.temperature = temperature
        self.decoded = decoded
        equal = torch.full_like(layer.weight[:, 0], 1 / layer.n_clusters)
        self.register_buffer("prior", equal.detach() if prior is None else prior)
        # Buffers, so that an interrupted stage goes on with what it has found out.
        self.register_buffer("weight", torch.tensor(weight, dtype=torch.float64))
        self.register_buffer("radius", radius)

    def losses(self, batch: Batch) -> Losses:
        """Return the losses of the rows, whose views go through the encoder as one batch."""
        x = batch.x if batch.moved is None else batch.moved
        if batch.partner is None:
            raise InputError("batches must give every row a partner; pass partners= to Batches")
        z = self.encoder(torch.cat([x, self._second(batch.partner, batch.row)]))
        out = self.layer(z)
        first, second = torch.softmax(out.scores / self.temperature, dim=1).chunk(2)  # eq. 7
        own, label = out.loss[: len(x)], out.labels[: len(x)]
        terms = {
            "clustering": own,
            "views": -information(first, second, self.prior, balance=self.balance),
        }
        if self.decoder is not None:
            share = max(2, round(self.decoded * len(x)))  # batch statistics need two
            terms["reconstruction"] = squared_error(x[:share], self.decoder(z[:share]))
        return Losses(terms, label)

    def _second(self, partner: Tensor, row: Tensor) -> Tensor:
        """Return the second view: the partner, or where its assignment changes most."""
        if self.radius is None:
            return partner
        # As the fitted model would see it: row by row, without drawing or learning statistics.
        training = self.encoder.training
        self.encoder.eval()
        moved = adversarial(partner, self._scores, self.radius[row], self.temperature)
        self.encoder.train(training)
        return moved

    def _scores(self, x: Tensor) -> Tensor:
        return self.layer(self.encoder(x)).scores

    def weights(self) -> dict[str, float]:
        """The clustering loss is reported, not minimised: it falls by itself."""
        return {"views": self.weight.item(), "clustering": 0.0}

    def centers(self) -> Tensor:
        """Return the layer's centres (k, p)."""
        return self.layer.centers
