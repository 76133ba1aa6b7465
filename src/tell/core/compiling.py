"""The parts of a training step that `torch.compile` can take: the losses and the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from tell.core.batches import Batch
from tell.core.objective import Losses, Objective


def compiled_losses(objective: Objective) -> Callable[[Batch], Losses]:
    """Return `objective.losses`, compiled; dropout draws the numbers it draws uncompiled."""
    losses: Callable[[Batch], Losses] = torch.compile(
        objective.losses, options={"fallback_random": True}
    )
    return losses


def compiled_step(optimizer: Optimizer) -> Callable[[], Any]:
    """Return `optimizer.step` with its arithmetic compiled to one pass over the weights.

    Written out, Adadelta passes over them many times. The hooks around a step, by which cluster
    layers look after themselves, stay as they are. A new learning rate compiles anew.
    """
    unhooked = getattr(type(optimizer).step, "__wrapped__", type(optimizer).step)
    step = Optimizer.profile_hook_step(torch.compile(unhooked))
    return lambda: step(optimizer)
