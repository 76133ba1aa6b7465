"""Networks: shapes, the paper's layout, errors."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tell.core.autoencoder import (
    Autoencoder,
    Crop,
    Dropout,
    FlattenImages,
    Pad,
    UnflattenImages,
    build_autoencoder,
    channels_last_,
    convolutional,
    fully_connected,
)
from tell.exceptions import ParameterError


@settings(max_examples=20, deadline=None)
@given(c=st.sampled_from([1, 3]), h=st.integers(1, 34), w=st.integers(1, 34), p=st.integers(1, 12))
def test_cnn_takes_any_side(c: int, h: int, w: int, p: int) -> None:
    encoder, decoder = convolutional((c, h, w), p)
    encoder.eval(), decoder.eval()
    x = torch.rand(2, c, h, w)
    z = encoder(x)
    assert z.shape == (2, p)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(2))
    back = decoder(z)
    assert back.shape == x.shape
    assert 0 <= back.min() <= back.max() <= 1


def test_crop_undoes_pad() -> None:
    x = torch.rand(2, 3, 7, 9)
    padded = Pad(7, 9)(x)
    assert padded.shape == (2, 3, 8, 12)
    assert torch.equal(Crop(7, 9)(padded), x)


def test_what_needs_no_padding_is_not_copied() -> None:
    x = torch.rand(2, 3, 8, 12)
    assert Pad(8, 12)(x) is x
    assert Crop(8, 12)(x) is x


def gradients(network: Autoencoder, x: torch.Tensor) -> dict[str, torch.Tensor]:
    (network.decoder(network.encoder(x)) - x).square().mean().backward()
    return {name: p.grad for name, p in nn.ModuleList(network).named_parameters()}


@pytest.mark.parametrize("channels", [1, 3])
def test_images_stay_channels_last_forward_and_backward(channels: int) -> None:
    torch.manual_seed(0)
    network, x = convolutional((channels, 8, 12), 4), torch.rand(6, channels, 8, 12)
    channels_last_(nn.ModuleList(network))
    seen: list[torch.Tensor] = []

    def watch(module: nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        seen.extend((inputs[0], output))
        output.register_hook(seen.append)

    for module in nn.ModuleList(network).modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.BatchNorm2d):
            module.register_forward_hook(watch)
    gradients(network, x.contiguous(memory_format=torch.channels_last))
    assert len(seen) == 3 * 15
    assert all(image.is_contiguous(memory_format=torch.channels_last) for image in seen)


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    dropped = Dropout(0.2)(torch.ones(1001, 999))
    assert dropped.unique().tolist() == pytest.approx([0, 1.25], rel=1e-5)
    assert (dropped == 0).float().mean() == pytest.approx(0.2, abs=0.002)  # 5 deviations
    assert dropped.double().mean() == pytest.approx(1, abs=0.0025)


def test_dropout_passes_gradients_of_what_it_kept() -> None:
    x = torch.rand(50, 7, requires_grad=True)
    dropped = Dropout(0.5)(x)
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, 2.0 * (dropped != 0))


def test_dropout_draws_from_the_seed() -> None:
    first, second = (torch.manual_seed(3) and Dropout(0.2)(torch.ones(99)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, Dropout(0.2)(torch.ones(99)))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_dropout_of_nothing_or_all(share: float) -> None:
    x = torch.rand(9, 5)
    assert torch.equal(Dropout(share)(x), x * (1 - share))
    assert torch.equal(Dropout(share).eval()(x), x)


def test_memory_format_changes_neither_results_nor_gradients() -> None:
    torch.manual_seed(0)
    ours, x = convolutional((3, 8, 12), 4), torch.rand(6, 3, 8, 12)
    plain = copy.deepcopy(ours)
    replace = {FlattenImages: nn.Flatten(), UnflattenImages: nn.Unflatten(1, (16, 2, 3))}
    for part in plain:
        for place, module in enumerate(part):
            part[place] = replace.get(type(module), module)
    nn.ModuleList(ours).to(memory_format=torch.channels_last)
    images = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(ours.encoder(images), plain.encoder(x))
    theirs = gradients(plain, x)
    for name, gradient in gradients(ours, images).items():
        torch.testing.assert_close(gradient, theirs[name], rtol=1e-3, atol=1e-6, msg=name)


def test_cnn_is_the_papers() -> None:
    encoder, decoder = convolutional((1, 28, 28))
    convolutions = [m for m in encoder if isinstance(m, nn.Conv2d)]
    assert [(m.out_channels, m.stride[0]) for m in convolutions] == [
        (16, 1),
        (32, 2),
        (32, 1),
        (16, 2),
    ]
    assert [m.out_features for m in encoder if isinstance(m, nn.Linear)] == [256, 10]
    # 28 / 4 = 7: the decoder's second linear layer feeds the transposed convolution directly.
    position = next(i for i, m in enumerate(decoder) if isinstance(m, nn.Unflatten))
    assert isinstance(decoder[position - 1], nn.Linear)
    assert decoder[position - 1].out_features == 16 * 7 * 7


def test_fcn_is_the_papers() -> None:
    encoder, decoder = fully_connected((784,))
    kinds = [type(m).__name__ for m in encoder]
    assert kinds[:4] == ["Flatten", "Dropout", "Linear", "ReLU"]
    assert kinds.count("Dropout") == kinds.count("Linear") == 4
    assert [m.out_features for m in encoder if isinstance(m, nn.Linear)] == [500, 500, 2000, 10]
    assert [m.out_features for m in decoder if isinstance(m, nn.Linear)] == [2000, 500, 500, 784]
    assert isinstance(decoder[-2], nn.Sigmoid)


@pytest.mark.parametrize("kind", ["mlp", "fcn"])
def test_dense_networks_take_images_and_rows(kind: str) -> None:
    for shape in [(6,), (1, 4, 5)]:
        encoder, decoder = build_autoencoder(kind, shape, 3)
        assert decoder(encoder(torch.rand(2, *shape))).shape == (2, *shape)


def test_unusable_networks_are_named() -> None:
    with pytest.raises(ParameterError, match="encoder='unet'"):
        build_autoencoder("unet", (4,))
    with pytest.raises(ParameterError, match=r"encoder='cnn' needs images.*\(4,\)"):
        build_autoencoder("cnn", (4,))
