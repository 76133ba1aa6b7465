"""Rows of a source in random order, with bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from tell.data.chunks import Block, Chunk, Source, join
from tell.exceptions import ParameterError

_BUFFER_BYTES = 128 << 20
_MOST_BUFFERED = 1 << 18


def shuffled(
    source: Source,
    *,
    batch_rows: int = 256,
    buffer_rows: int | None = None,
    seed: int = 0,
    epoch: int = 0,
) -> Iterator[Chunk]:
    """Read every row once, in a random order that `seed` and `epoch` fix.

    Blocks (row groups of Parquet, spans of lines of CSV, slices of arrays) are visited in random
    order, up to 64 at the same time; their rows go through a buffer, of which a random half is
    given out whenever it is full. The order is perfectly random if the buffer holds everything,
    and close to it if a file has many blocks. A gzipped CSV and a stream are one block each: they
    are read front to back and mixed only within the buffer, as is a Parquet file that was written
    in a single row group.

    Parameters
    ----------
    source : Source
    batch_rows : int, default=256
        Rows of each batch; the last one may be smaller.
    buffer_rows : int, optional
        Rows that are mixed at a time; default: 128 MiB of them, at most 262,144.
    seed, epoch : int
        The same pair gives the same order; a new epoch, another one.

    Yields
    ------
    Chunk
        Its `start` counts the rows given out before.

    Examples
    --------
    >>> from tell.data.sources import open_source
    >>> batches = list(shuffled(open_source("digits"), batch_rows=1000))
    >>> [len(batch) for batch in batches]
    [1000, 797]
    """
    if batch_rows < 1:
        raise ParameterError(f"batch_rows must be at least 1, got {batch_rows}")
    if buffer_rows is None:
        buffer_rows = min(_MOST_BUFFERED, _BUFFER_BYTES // source.row_bytes)
    random = np.random.default_rng([seed, epoch])
    start = 0
    rest: list[Chunk] = []
    for mixed in _mixed(source, max(buffer_rows, batch_rows), random):
        rest.append(mixed)
        if sum(map(len, rest)) < batch_rows:
            continue
        whole = join(rest)
        last = len(whole) - len(whole) % batch_rows
        for first in range(0, last, batch_rows):
            yield whole.part(first, first + batch_rows, start=start)
            start += batch_rows
        rest = [whole.part(last, len(whole))] if last < len(whole) else []
    if rest:
        whole = join(rest)
        yield whole.part(0, len(whole), start=start)


def _mixed(source: Source, buffer_rows: int, random: Generator) -> Iterator[Chunk]:
    """Fill the buffer, give out a random half of it, keep the other half to mix with what comes."""
    buffer: list[Chunk] = []
    filled = 0
    for chunk in _interleaved(source, buffer_rows, random):
        buffer.append(chunk)
        filled += len(chunk)
        if filled >= buffer_rows:
            rows = _permuted(join(buffer), random)
            keep = min(buffer_rows // 2, len(rows))
            yield rows.part(keep, len(rows))
            buffer, filled = [rows.part(0, keep)], keep
    if filled:
        yield _permuted(join(buffer), random)


def _interleaved(source: Source, buffer_rows: int, random: Generator) -> Iterator[Chunk]:
    """Read several blocks side by side, in turn, so that the buffer holds rows of all of them."""
    blocks, width = source.blocks(), source.open_blocks
    waiting = [blocks[position] for position in random.permutation(len(blocks))]
    reading: deque[Iterator[Chunk]] = deque()
    rows = max(1, buffer_rows // (2 * width))
    while waiting or reading:
        while waiting and len(reading) < width:
            reading.append(_pieces(waiting.pop(), rows))
        pieces = reading.popleft()
        if (chunk := next(pieces, None)) is not None:
            reading.append(pieces)
            yield chunk


def _pieces(block: Block, rows: int) -> Iterator[Chunk]:
    for chunk in block():
        for first in range(0, len(chunk), rows):
            yield chunk.part(first, first + rows)


def _permuted(chunk: Chunk, random: Generator) -> Chunk:
    order = random.permutation(len(chunk))
    return Chunk(chunk.X[order], None if chunk.y is None else chunk.y[order], 0)
