"""Tell every row from all others by two moved copies of it (SimCLR, Chen et al., 2020).

What two copies of a photograph share, and no other photograph has, is rarely a matter of pixels.
Features that find it make better neighbours than pixels or edges do, before any cluster is known.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor, nn

from tell.core.batches import Batch
from tell.core.objective import Losses, Objective
from tell.exceptions import InputError

TEMPERATURE = 0.2


def contrast(first: Tensor, second: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Return how badly each view finds the other one of its row among all views, in nats (b,).

    It is the cross-entropy of choosing the partner by cosine among the 2b - 1 other views, in the
    mean of both directions (NT-Xent): from 0 to about log(2b) where all views are alike.

    Parameters
    ----------
    first, second : Tensor (b, p)
        Two views of the same rows.
    temperature : float
        Of the cosines: the smaller, the more the most similar rows count.

    Examples
    --------
    >>> contrast(torch.eye(2), torch.eye(2), temperature=0.1).round(decimals=3).tolist()
    [0.0, 0.0]
    >>> contrast(torch.ones(2, 2), torch.ones(2, 2)).tolist()  # log 3: any of the three others
    [1.0986123085021973, 1.0986123085021973]
    """
    with torch.autocast(first.device.type, enabled=False):  # near ones differ in the last digits
        views = F.normalize(torch.cat([first, second]).float(), dim=1)
        cosines = views @ views.T / temperature
        itself = torch.eye(len(views), dtype=torch.bool, device=views.device)
        b = len(first)
        partner = torch.arange(2 * b, device=views.device).roll(b)
        found = F.cross_entropy(cosines.masked_fill(itself, -torch.inf), partner, reduction="none")
        return found.view(2, b).mean(0)


class InstanceDiscrimination(Objective):
    """`contrast` of two moved copies of each row. Needs batches with partners and augmentation.

    Parameters
    ----------
    encoder : nn.Module
    temperature : float

    Examples
    --------
    >>> objective = InstanceDiscrimination(nn.Identity())
    >>> x = torch.eye(2)
    >>> batch = Batch(x, torch.arange(2), moved=x, partner=x)
    >>> bool(objective.losses(batch).terms["contrast"].max() < 0.02)
    True
    """

    def __init__(self, encoder: nn.Module, temperature: float = TEMPERATURE) -> None:
        super().__init__()
        self.encoder = encoder
        self.temperature = temperature

    def losses(self, batch: Batch) -> Losses:
        """Return the losses of the rows, whose views go through the encoder as one batch."""
        if batch.moved is None or batch.partner is None:
            raise InputError("batches must move rows and give them partners, got rows as they are")
        first, second = self.encoder(torch.cat([batch.moved, batch.partner])).chunk(2)
        return Losses({"contrast": contrast(first, second, self.temperature)})
