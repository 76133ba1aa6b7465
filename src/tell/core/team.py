"""Several processes that train one model on different rows, and hold the same weights.

After every step's differentiation all ranks of torch.distributed average their gradients, as
`DistributedDataParallel` does, in one message that also carries the losses and whether the time is
up. The cluster layer normalises its gradient when the optimiser takes it, which is after that: the
same centres move by the same step in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

Thing = TypeVar("Thing")


class Team:
    """The ranks of the process group that is set up already."""

    def __init__(self) -> None:
        import torch.distributed as dist

        self._dist = dist
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    @torch.no_grad()
    def average_(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors of one type by their means over all ranks, in one message."""
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        self._dist.all_reduce(flat)
        flat /= self.size
        for tensor, mean in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    @torch.no_grad()
    def same_(self, module: nn.Module) -> None:
        """Give all ranks the parameters and buffers of the first."""
        home = next(module.parameters()).device  # NCCL sends nothing that lies in main memory
        for tensor in module.state_dict().values():
            sent = tensor.to(home).contiguous()
            self._dist.broadcast(sent, src=0)
            tensor.data.copy_(sent)  # .data: to the cluster layer this is no foreign weight

    def first_of(self, thing: Thing | None) -> Thing | None:
        """What the first rank has that has anything."""
        everyone: list[Thing | None] = [None] * self.size
        self._dist.all_gather_object(everyone, thing)
        return next((one for one in everyone if one is not None), None)


def averaged(module: nn.Module) -> list[Tensor]:
    """Gradients, and what batch normalisation has learned of its own batches."""
    found = [p.grad for p in module.parameters() if p.grad is not None]
    for part in module.modules():
        if isinstance(part, _BatchNorm):
            learned = (part.running_mean, part.running_var)
            found += [tensor for tensor in learned if tensor is not None]
    return found
