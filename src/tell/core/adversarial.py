"""The other view of a row where no movement is known: where its assignment changes most (VAT).

Virtual adversarial training (Miyato et al., 2018; IMSAT, Hu et al., 2017) moves a row by a short
way along the direction in which the divergence of its soft assignment grows fastest, found by one
step of the power method. It needs no knowledge of what the columns mean.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tell.core.layer import unit


@torch.compiler.disable  # the graph of a gradient inside a step is not one that it can take
def adversarial(
    x: Tensor, scores: Callable[[Tensor], Tensor], radius: Tensor, temperature: float
) -> Tensor:
    """Return the rows, each moved by its radius to where its assignment (eq. 7) changes most.

    The divergence `KL(p(x) ‖ p(x + r))` has no slope at r = 0. Its slope is therefore taken at a
    random r of the radius' length; a row whose assignment does not change there stays with that r.

    Parameters
    ----------
    x : Tensor (b, ...)
    scores : callable (b, ...) -> (b, k)
        Those of the cluster layer; each row's must depend on that row alone.
    radius : Tensor (b,)
        In the units of x.
    temperature : float
        τ of eq. 7.

    Examples
    --------
    >>> row = torch.tensor([[1.0, 0.0]])
    >>> moved = adversarial(row, lambda z: z @ torch.tensor([[1.0, -1.0], [0, 0]]), row[0, :1], 1.0)
    >>> (moved - row).abs().round().tolist()  # along the first column, which decides
    [[1.0, 0.0]]
    """
    length = radius.to(x.dtype)[:, None]
    start = unit(torch.randn_like(x).flatten(1))
    with torch.no_grad():
        expected = torch.softmax(scores(x) / temperature, dim=1)
    with torch.enable_grad():
        probe = (x.detach() + (length * start).reshape(x.shape)).requires_grad_()
        # The cross-entropy differs from the divergence by a constant.
        log_assignment = torch.log_softmax(scores(probe) / temperature, dim=1)
        (slope,) = torch.autograd.grad(-(expected * log_assignment).sum(), probe)
    slope = unit(slope.flatten(1))
    moved = torch.where(slope.norm(dim=1, keepdim=True) > 0, slope, start)
    return x.detach() + (length * moved).reshape(x.shape)
