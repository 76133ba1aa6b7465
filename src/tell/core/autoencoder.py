"""Networks that turn rows into an embedding and back: the paper's CNN and FCN, and an MLP.

Every encoder ends on the unit sphere, where the cluster layer works (eq. 6). Any other pair of
modules may take their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor, nn

from tell.exceptions import ParameterError

DRAWN = 2**16  # different numbers that `Dropout` draws


class Autoencoder(NamedTuple):
    """An encoder (b, *shape) -> (b, p) and a decoder (b, p) -> (b, *shape)."""

    encoder: nn.Module
    decoder: nn.Module


class UnitLength(nn.Module):
    """Scale every row to unit length.

    >>> UnitLength()(torch.tensor([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return x / |x| for every row."""
        return F.normalize(x, dim=1)


class Dropout(nn.Dropout):
    """`nn.Dropout` that draws 16 bits for a value on a CPU, where torch draws and computes more.

    The share of dropped values is p to 16 binary digits; the mean stays as it is, exactly.

    >>> _ = torch.manual_seed(0)
    >>> Dropout(0.5)(torch.ones(8)).tolist()
    [0.0, 0.0, 2.0, 2.0, 0.0, 0.0, 0.0, 2.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return x with some values zero and the others larger, in training."""
        kept = round(DRAWN * (1 - self.p))
        if not self.training or x.device.type != "cpu" or kept in (0, DRAWN):
            return super().forward(x)
        # Whole 64-bit numbers are the cheapest to draw: four values each.
        drawn = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 4),))
        numbers = drawn.view(torch.int16)[: x.numel()].view(x.shape)
        mask = torch.empty(x.shape, dtype=x.dtype)
        torch.ge(numbers, DRAWN // 2 - kept, out=mask)
        return x * mask.mul_(DRAWN / kept)


class _ChannelsLast(torch.autograd.Function):
    """The identity, whose gradient is channels-last."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.contiguous(memory_format=torch.channels_last)


def _keep_format(x: Tensor) -> Tensor:
    """Let the gradient of channels-last images come back channels-last.

    What follows may hand it back in either format, and all layers before would then have to work on
    a mixture of the two, which is slow.
    """
    return _ChannelsLast.apply(x) if x.is_contiguous(memory_format=torch.channels_last) else x


class Pad(nn.Module):
    """Fill images up with zeros on all sides until their sides are multiples of 4."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        vertical, horizontal = -height % 4, -width % 4
        self.left, self.top = horizontal // 2, vertical // 2
        self.right, self.bottom = horizontal - self.left, vertical - self.top

    def forward(self, x: Tensor) -> Tensor:
        """Return the larger images; the same ones, uncopied, if they fit already."""
        sides = (self.left, self.right, self.top, self.bottom)
        return F.pad(x, sides) if any(sides) else x


class Crop(nn.Module):
    """Cut off what `Pad` added."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width
        pad = Pad(height, width)
        self.top, self.left = pad.top, pad.left

    def forward(self, x: Tensor) -> Tensor:
        """Return the images at their own size."""
        x = _keep_format(x)
        if x.shape[2:] == (self.height, self.width):
            return x
        return x[:, :, self.top : self.top + self.height, self.left : self.left + self.width]


class FlattenImages(nn.Flatten):
    """`nn.Flatten` to rows in the order (c, h, w), whose gradient has the images' memory format."""

    def forward(self, x: Tensor) -> Tensor:
        """Return rows (b, c h w)."""
        return super().forward(_keep_format(x))


class UnflattenImages(nn.Unflatten):
    """`nn.Unflatten` from rows in the order (c, h, w) to channels-last images."""

    def forward(self, x: Tensor) -> Tensor:
        """Return images (b, c, h, w)."""
        return super().forward(x).contiguous(memory_format=torch.channels_last)


def channels_last_(module: nn.Module) -> None:
    """Store filters as `Batches` stores images, in place: convolutions are faster that way."""
    for parameter in module.parameters():
        if parameter.ndim == 4:
            # Not `contiguous(memory_format=...)`: where a filter has one channel, both formats are
            # the same to it, and the convolution then works in the other one.
            last = parameter.data.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format)
            parameter.data = last.permute(0, 3, 1, 2)


def convolutional(shape: Sequence[int], embedding_dim: int = 10) -> Autoencoder:
    """Build the paper's convolutional autoencoder for images (c, h, w) with values in [0, 1].

    Examples
    --------
    >>> encoder, decoder = convolutional((3, 30, 28))
    >>> z = encoder(torch.rand(2, 3, 30, 28))
    >>> z.shape, decoder(z).shape
    (torch.Size([2, 10]), torch.Size([2, 3, 30, 28]))
    """
    channels, height, width = shape
    rows, columns = -(-height // 4), -(-width // 4)
    encoder = nn.Sequential(
        Pad(height, width),
        *_down(channels, 16, stride=1),
        *_down(16, 32, stride=2),
        *_down(32, 32, stride=1),
        *_down(32, 16, stride=2),
        FlattenImages(),
        nn.Linear(16 * rows * columns, 256),
        nn.ReLU(),
        nn.Linear(256, embedding_dim),
        UnitLength(),
    )
    decoder = nn.Sequential(
        nn.Linear(embedding_dim, 256),
        nn.ReLU(),
        nn.Linear(256, 16 * rows * columns),  # no activation before the first convolution
        UnflattenImages(1, (16, rows, columns)),
        *_up(16, 32, stride=2),
        *_up(32, 32, stride=1),
        *_up(32, 16, stride=2),
        nn.ConvTranspose2d(16, channels, 3, stride=1, padding=1),
        nn.Sigmoid(),
        Crop(height, width),
    )
    return _initialised(encoder, decoder)


def fully_connected(shape: Sequence[int], embedding_dim: int = 10) -> Autoencoder:
    """Build the paper's fully connected autoencoder 500-500-2000-p for values in [0, 1].

    Examples
    --------
    >>> encoder, decoder = fully_connected((8, 8))
    >>> decoder(encoder(torch.rand(2, 8, 8))).shape
    torch.Size([2, 8, 8])
    """
    return _dense(shape, (500, 500, 2000), embedding_dim, dropout=0.2, output=nn.Sigmoid())


def perceptron(
    shape: Sequence[int], embedding_dim: int = 10, hidden: Sequence[int] = (256, 256)
) -> Autoencoder:
    """Build a small autoencoder for tables with standardised columns.

    Examples
    --------
    >>> encoder, decoder = perceptron((7,), embedding_dim=3)
    >>> decoder(encoder(torch.randn(2, 7))).shape
    torch.Size([2, 7])
    """
    return _dense(shape, hidden, embedding_dim)


BUILDERS = {"cnn": convolutional, "fcn": fully_connected, "mlp": perceptron}


def build_autoencoder(kind: str, shape: Sequence[int], embedding_dim: int = 10) -> Autoencoder:
    """Build a network by name: "cnn", "fcn", "mlp", or "auto" for the one that fits the shape.

    >>> type(build_autoencoder("auto", (1, 28, 28)).encoder[0]).__name__
    'Pad'
    """
    if kind == "auto":
        kind = "cnn" if len(shape) == 3 else "mlp"
    if kind not in BUILDERS:
        raise ParameterError(
            f"encoder={kind!r} must be 'auto', 'cnn', 'fcn', 'mlp' or a torch module; "
            "pass one of these"
        )
    if kind == "cnn" and len(shape) != 3:
        raise ParameterError(
            f"encoder='cnn' needs images (n, h, w) or (n, c, h, w), got rows of shape "
            f"{tuple(shape)}; reshape X or pass encoder='fcn'"
        )
    return BUILDERS[kind](shape, embedding_dim)


def _down(channels: int, out: int, stride: int) -> list[nn.Module]:
    conv = nn.Conv2d(channels, out, 3, stride=stride, padding=1)
    return [conv, nn.BatchNorm2d(out), nn.ReLU(inplace=True)]


def _up(channels: int, out: int, stride: int) -> list[nn.Module]:
    conv = nn.ConvTranspose2d(channels, out, 3, stride=stride, padding=1, output_padding=stride - 1)
    return [conv, nn.BatchNorm2d(out), nn.ReLU(inplace=True)]


def _dense(
    shape: Sequence[int],
    hidden: Sequence[int],
    embedding_dim: int,
    *,
    dropout: float = 0.0,
    output: nn.Module | None = None,
) -> Autoencoder:
    sizes = [int(torch.Size(shape).numel()), *hidden, embedding_dim]
    down: list[nn.Module] = [nn.Flatten()]
    up: list[nn.Module] = []
    for wide, narrow in pairwise(sizes):
        down += [Dropout(dropout)] if dropout else []
        down += [nn.Linear(wide, narrow), nn.ReLU()]
        up = [nn.Linear(narrow, wide), nn.ReLU(), *up]
    encoder = nn.Sequential(*down[:-1], UnitLength())
    decoder = nn.Sequential(*up[:-1], output or nn.Identity(), nn.Unflatten(1, tuple(shape)))
    return _initialised(encoder, decoder)


def _initialised(encoder: nn.Module, decoder: nn.Module) -> Autoencoder:
    # Kaiming uniform, section 4.1.
    for module in (*encoder.modules(), *decoder.modules()):
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return Autoencoder(encoder, decoder)
