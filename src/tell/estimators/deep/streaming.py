"""Rows beyond memory as batches: read from their source in every epoch, in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from tell.core.batches import Augment, Batch, Batches
from tell.data.chunks import Source
from tell.data.shuffling import shuffled
from tell.estimators.deep.inputs import InputScale, network_shape
from tell.estimators.sampling import Sample

# Parts of the memory of a fit. Mixing holds the rows up to four times: the buffer, what is put
# together for it, its new order, and the batches that are cut from that.
SAMPLE_PART, BUFFER_PART = 2, 16
MOST_BUFFERED = 128 << 20  # bytes; more mixes no better


@dataclass(frozen=True)
class SourceRows:
    """All rows of a source that memory does not hold, as a network takes them.

    Parameters
    ----------
    source : Source
        That can be read again.
    n_rows : int
    scale : InputScale
    device : str or torch.device
    buffer : int
        Bytes of rows that are mixed at a time.
    """

    source: Source
    n_rows: int
    scale: InputScale
    device: str | torch.device
    buffer: int

    def shuffled(self, batch_rows: int, seed: int, epoch: int) -> Iterator[Tensor]:
        """Give every row once, in an order that `seed` and `epoch` fix."""
        shape = network_shape(self.source.row_shape)
        rows = max(batch_rows, self.buffer // self.source.row_bytes)
        for chunk in shuffled(
            self.source, batch_rows=batch_rows, buffer_rows=rows, seed=seed, epoch=epoch
        ):
            yield channels_last(self.scale.apply(chunk.X.reshape(-1, *shape)).to(self.device))


class StreamedBatches(Batches):
    """All rows of a source in shuffled batches; a sample of them is in memory.

    The rows have no numbers. Whoever asks for rows in their order, as for what the model predicts
    after an epoch, gets the sample.

    Parameters
    ----------
    sample : Tensor (m, ...)
    rows : SourceRows
    through : callable (x) -> Tensor, optional
        What the rows pass before they are given out, such as an encoder that is fixed.
    batch_size, drop_last, seed, augment, share
        As of `Batches`; every process reads all rows and takes its batches among them.
    """

    def __init__(
        self,
        sample: Tensor,
        rows: SourceRows,
        batch_size: int,
        *,
        through: Callable[[Tensor], Tensor] | None = None,
        drop_last: bool = False,
        seed: int = 0,
        augment: Augment | None = None,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__(
            sample, batch_size, drop_last=drop_last, seed=seed, augment=augment, share=share
        )
        self.rows = rows
        self.through = through

    @property
    def n_rows(self) -> int:
        """Rows of the source, or this process's share of them."""
        return self.rows.n_rows // self.share[1]

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the batches of one epoch; those before `start` are read and left out."""
        every = self.rows.shuffled(self.batch_size, self.seed, epoch)
        parts = islice(every, self.share[0], None, self.share[1])
        none = torch.empty(0, dtype=torch.long, device=self.device)
        for step, part in enumerate(islice(parts, start, self.steps), start):
            x = part if self.through is None else self.through(part)
            yield Batch(x, none, self._moved(x, epoch, step))

    def _as_stored(self, x: Tensor) -> Tensor:
        return x  # no copy: the sample is asked for once in an epoch

    def _shaped(self, part: Tensor) -> Tensor:
        return channels_last(part)


def channels_last(x: Tensor) -> Tensor:
    """Images in the order in which convolutions are fast, as `Batches` gives them."""
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


def thin(sample: Sample, seed: int) -> None:
    """Keep a part of a sample, to leave room for the rows that are read while training."""
    X = sample.X
    chosen = np.random.default_rng(seed).choice(len(X), max(2, len(X) // SAMPLE_PART), False)
    sample.X = X[np.sort(chosen)]


def buffer_bytes(memory: int) -> int:
    """Bytes of rows that may be mixed at a time."""
    return min(MOST_BUFFERED, memory // BUFFER_PART)
