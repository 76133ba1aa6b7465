"""In which numbers the networks multiply: float32, or bfloat16 where the machine computes in it.

Mixed precision as `torch.autocast` means it: weights, averages of the optimiser, losses and the
cluster layer stay in float32, the products of the networks are taken of rounded numbers. bfloat16
has the range of float32, so that no gradient needs to be scaled.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)

from tell.exceptions import ParameterError

PRECISIONS = ("float32", "bfloat16")


def check_precision(precision: str, device: str | torch.device) -> None:
    """Refuse a name that means nothing, and what the device cannot do.

    >>> check_precision("float32", "cpu")
    """
    if precision not in PRECISIONS:
        allowed = ", ".join(map(repr, PRECISIONS))
        raise ParameterError(f"precision={precision!r} must be one of {allowed}; pass one")
    if precision == "float32":
        return
    # A processor may name an instruction that its host does not let it use: only a try tells.
    try:
        rows = torch.ones(32, 32, dtype=torch.bfloat16, device=device)
        images = torch.ones(2, 16, 8, 8, dtype=torch.bfloat16, device=device)
        F.linear(rows, rows)
        F.conv2d(images, images[:, :, :3, :3])
    except RuntimeError as error:
        raise ParameterError(
            f"precision='bfloat16' must be computable on {device}, got {error}; pass 'float32'"
        ) from error


def products_in(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Multiply in this precision within the block.

    >>> a = torch.full((1, 1), 1.001)
    >>> with products_in("bfloat16", a.device):
    ...     (a @ a).item()
    1.0
    """
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
