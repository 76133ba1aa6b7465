"""The module behind `DeepTELL`: encoder, cluster layer and decoder, asked in evaluation mode."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tell.core.assignment import wide
from tell.core.evaluation import EVALUATION_ROWS, in_blocks, one_thread
from tell.core.layer import ClusterLayer
from tell.exceptions import ParameterError


class Assigned(NamedTuple):
    """What the model says of rows, in evaluation mode."""

    labels: Tensor  # (n,)
    loss: Tensor  # (n,) squared distance to the own centre
    scores: Tensor  # (n, k)


class DeepModel(nn.Module):
    """Encoder, cluster layer and, if there is one, decoder."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module | None, layer: ClusterLayer) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.layer = layer

    @torch.no_grad()
    def embed(self, x: Tensor) -> Tensor:
        """Encode rows (n, ...) to (n, p) in evaluation mode."""
        self.eval()
        return in_blocks(self.encoder, x)

    @torch.no_grad()
    def decode(self, z: Tensor) -> Tensor:
        """Decode embedded rows (n, p) in evaluation mode."""
        if self.decoder is None:
            raise ParameterError("decoding needs a decoder, got decoder=None; fit with a decoder")
        self.eval()
        return in_blocks(self.decoder, z)

    @torch.no_grad()
    def assign(self, z: Tensor) -> Assigned:
        """Assign embedded rows (n, p)."""
        # The last bits of a product in float32 depend on where in a block a row stands.
        layer = copy.deepcopy(self.layer).to(wide(self.layer.weight).dtype)
        with one_thread():
            outs = [layer(wide(part)) for part in z.split(EVALUATION_ROWS)]
        labels, loss, scores = (
            torch.cat([getattr(out, name) for out in outs]) for name in Assigned._fields
        )
        return Assigned(labels, loss.to(z.dtype), scores.to(z.dtype))
