"""The parts of a training step that `torch.compile` can take: the losses and the update."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.optim import Optimizer

from tell.core.batches import Batch
from tell.core.objective import Losses, Objective
from tell.exceptions import CompilerWarning

Result = TypeVar("Result")


def compiled_losses(objective: Objective) -> Callable[[Batch], Losses]:
    """Return `objective.losses`, compiled; dropout draws the numbers it draws uncompiled."""
    losses: Callable[[Batch], Losses] = torch.compile(
        objective.losses, options={"fallback_random": True}
    )
    return _or_plain(losses, objective.losses)


def compiled_step(optimizer: Optimizer) -> Callable[[], Any]:
    """Return `optimizer.step` with its arithmetic compiled to one pass over the weights.

    Written out, Adadelta passes over them many times. The hooks around a step, by which cluster
    layers look after themselves, stay as they are. A new learning rate compiles anew.
    """
    unhooked = getattr(type(optimizer).step, "__wrapped__", type(optimizer).step)
    step = Optimizer.profile_hook_step(torch.compile(unhooked))
    return _or_plain(lambda: step(optimizer), optimizer.step)


def _or_plain(fast: Callable[..., Result], plain: Callable[..., Result]) -> Callable[..., Result]:
    """Call what was compiled; where that cannot be done, say so and go on without it.

    torch compiles at the first call. What fails after that has other causes than the compiler.
    """
    chosen, works = fast, False

    def call(*arguments: Any) -> Result:
        nonlocal chosen, works
        try:
            result = chosen(*arguments)
            works = True
            return result
        except Exception as error:  # a compiler's may be anything; what is wrong else comes again
            if works or chosen is plain:
                raise
            reason = str(error).strip().partition("\n")[0]
            warnings.warn(
                f"compiled=True needs a step that torch can compile and run here, got "
                f"{type(error).__name__}: {reason}; going on uncompiled",
                CompilerWarning,
                stacklevel=2,
            )
            chosen = plain
            return plain(*arguments)

    return call
