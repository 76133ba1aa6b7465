"""Rows that stay in memory as one tensor and come back as seeded, shuffled batches.

One gather per batch replaces the worker processes of a `DataLoader`. The order of an epoch and the
augmentation of a batch depend on nothing but (seed, epoch, step), so a run that was interrupted
anywhere goes on with exactly the batches it would have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from tell.core.evaluation import EVALUATION_ROWS
from tell.exceptions import ParameterError

Augment = Callable[[Tensor, torch.Generator], Tensor]


class Batch(NamedTuple):
    """Some rows of the data.

    Attributes
    ----------
    x : Tensor (b, ...)
    row : Tensor (b,)
        Their row numbers, for objectives that keep something per row; (0,) where they have none.
    moved : Tensor (b, ...) or None
        The same rows after augmentation.
    partner : Tensor (b, ...) or None
        For each row another one that should get the same label, after augmentation if there is any.
    """

    x: Tensor
    row: Tensor
    moved: Tensor | None = None
    partner: Tensor | None = None


def seeded_generator(*numbers: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator that depends on all the numbers and on nothing else.

    >>> a, b = seeded_generator(3, 1), seeded_generator(3, 1)
    >>> bool(torch.rand(1, generator=a) == torch.rand(1, generator=b))
    True
    """
    seed = 0
    for number in numbers:
        seed = (seed * 0x9E3779B97F4A7C15 + number + 1) % 2**63
    return torch.Generator(device=device).manual_seed(seed)


class Batches:
    """All rows as one tensor, given out in batches.

    Parameters
    ----------
    x : Tensor (n, d) or (n, c, h, w)
    batch_size : int
    drop_last : bool
        Leave out the rows that do not fill the last batch (another few in every epoch).
    seed : int
        Of the shuffling and of the augmentation.
    augment : callable (x, generator) -> moved x, optional
    share : (int, int)
        Number and count of the processes that train together: (1, 2) gives out every other row, in
        batches of half the size.
    partners : Tensor (n, m) of row numbers, optional
        Rows that should get the label of the row, such as its neighbours: one of them, at random,
        is given out beside it. The row itself makes sense with augmentation.

    Examples
    --------
    >>> batches = Batches(torch.arange(10.0).reshape(5, 2), batch_size=2, drop_last=True)
    >>> [batch.x.shape[0] for batch in batches.epoch(0)]
    [2, 2]
    """

    def __init__(
        self,
        x: Tensor,
        batch_size: int = 256,
        *,
        drop_last: bool = False,
        seed: int = 0,
        augment: Augment | None = None,
        share: tuple[int, int] = (0, 1),
        partners: Tensor | None = None,
    ) -> None:
        self.images = x.ndim == 4
        self.stored = self._as_stored(x)
        self.share = share
        self.batch_size = min(max(1, batch_size // share[1]), max(1, len(self) // share[1]))
        self.drop_last = drop_last
        self.seed = seed
        self.augment = augment
        self.partners = partners

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.stored.device

    @property
    def n_rows(self) -> int:
        """Rows that an epoch goes through: the same number in every process."""
        return len(self) // self.share[1]

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        full, rest = divmod(self.n_rows, self.batch_size)
        # A single row has no batch statistics: batch normalisation could not take it.
        return full if self.drop_last or rest <= 1 else full + 1

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the batches of one epoch, from step number `start` on."""
        number, count = self.share
        draw = (self.seed, epoch, number) if number else (self.seed, epoch)
        order = torch.randperm(self.n_rows, generator=seeded_generator(*draw))
        order = (order * count + number).to(self.device)
        for step in range(start, self.steps):
            row = order[step * self.batch_size : (step + 1) * self.batch_size]
            x = self._shaped(self.stored[row])
            yield Batch(x, row, self._moved(x, epoch, step), self._partner(row, epoch, step))

    def in_order(self, batch_size: int = EVALUATION_ROWS) -> Iterator[Tensor]:
        """Give all rows once, as they are and in their order."""
        for part in self.stored.split(batch_size):
            yield self._shaped(part)

    def _as_stored(self, x: Tensor) -> Tensor:
        # As (n, h, w, c): a gathered batch is then channels-last without another copy.
        return (x.permute(0, 2, 3, 1) if self.images else x).contiguous()

    def _shaped(self, part: Tensor) -> Tensor:
        return part.permute(0, 3, 1, 2) if self.images else part

    def _moved(self, x: Tensor, epoch: int, step: int) -> Tensor | None:
        if self.augment is None:
            return None
        return self._move(x, seeded_generator(self.seed, epoch, step, device=self.device))

    def _partner(self, row: Tensor, epoch: int, step: int) -> Tensor | None:
        if self.partners is None:
            return None
        # Another draw than that of `_moved`, so that a row and its copy move differently.
        generator = seeded_generator(self.seed, epoch, step, 1, device=self.device)
        among = self.partners[row]
        one = torch.randint(among.shape[1], row.shape, generator=generator, device=self.device)
        x = self._shaped(self.stored[among.gather(1, one[:, None]).squeeze(1)])
        return self._move(x, generator)

    def _move(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Move rows by the user's callable, which may return anything."""
        if self.augment is None:
            return x
        moved = self.augment(x, generator)
        if not isinstance(moved, Tensor) or moved.shape != x.shape or moved.dtype != x.dtype:
            found = type(moved).__name__
            if isinstance(moved, Tensor):
                found = f"{str(moved.dtype).removeprefix('torch.')} {tuple(moved.shape)}"
            raise ParameterError(
                "augment must return rows like those it is given, a tensor of "
                f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}, got {found}"
            )
        return moved
