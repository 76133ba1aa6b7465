"""Ask a network about many rows, so that the answer for a row does not depend on the others.

A matrix product that is shared among threads treats a row differently where the threads' parts
meet, so the last bits of its result depend on where it stands. Here every block of rows belongs to
one thread, and the blocks, not their rows, are shared out. That is faster, too. (Within a block a
product with few columns may still round the last rows otherwise. The networks of this package do
not end in one that narrow without more; a network of the user's own may.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

EVALUATION_ROWS = 1024


@torch.no_grad()
def in_blocks(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return `function` of all rows x (n, ...), asked in blocks of `EVALUATION_ROWS`.

    It must be in evaluation mode: no row's result may depend on the other rows of its block.

    >>> in_blocks(torch.nn.Linear(3, 2), torch.ones(2000, 3)).shape
    torch.Size([2000, 2])
    """
    blocks = x.split(EVALUATION_ROWS)
    if x.device.type != "cpu":
        return torch.cat([function(block) for block in blocks])
    threads = min(torch.get_num_threads(), len(blocks))
    with one_thread():
        if threads == 1:
            return torch.cat([function(block) for block in blocks])
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return torch.cat(list(pool.map(torch.no_grad()(function), blocks)))


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute in the calling thread alone, then in as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
