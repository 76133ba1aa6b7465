"""IIC: its views, its heads, and features that k-means can use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits

from tell.baselines.iic import Iic, Windows, backbone, iic_features, middle
from tell.baselines.pretraining import train
from tell.core.batches import Batch, Batches
from tell.core.checkpoint import read_checkpoint
from tell.core.information import information
from tell.core.loop import Loop
from tell.exceptions import ModelFileError

DIGITS = load_digits()
IMAGES = torch.from_numpy(DIGITS.images / 16).float()[:, None]


def test_the_network_is_the_published_one() -> None:
    network = backbone(1)
    widths = [layer.out_channels for layer in network if isinstance(layer, torch.nn.Conv2d)]
    assert widths == [64, 128, 256, 512]
    assert network(middle(torch.rand(2, 1, 28, 28))).shape == (2, 512 * 3 * 3)


def test_windows_are_parts_of_the_image_at_one_size() -> None:
    x = torch.zeros(300, 1, 28, 28)
    x[:, :, 12:16, 12:16] = 1
    still, moved = middle(x), Windows()(x, torch.Generator().manual_seed(0))
    assert still.shape == moved.shape == (300, 1, 24, 24)
    # A window of 20 pixels at 24 × 24: the 4 × 4 square covers (4 · 24 / 20)² pixels.
    assert still[0].sum().item() == pytest.approx((4 * 24 / 20) ** 2, rel=0.02)
    assert moved.flatten(1).unique(dim=0).shape[0] == 300


def test_the_loss_is_the_information_of_both_kinds_of_heads() -> None:
    torch.manual_seed(0)
    objective = Iic(backbone(1, width=2), 16, n_clusters=3).eval()
    batch = Batch(IMAGES[:20], torch.arange(20), moved=middle(IMAGES[20:40]))
    losses = objective.losses(batch)
    first, second = objective.say(middle(IMAGES[:20])), objective.say(batch.moved)
    for name in ("clusters", "overclusters"):
        pairs = zip(first[name], second[name], strict=True)
        expected = -torch.stack([information(*pair) for pair in pairs]).mean()
        torch.testing.assert_close(losses.terms[name].mean(), expected)
    assert [head.out_features for head in objective.overclusters] == [15] * 5


def test_heads_learn_to_say_the_same_of_both_views() -> None:
    torch.manual_seed(0)
    objective = Iic(backbone(1, width=8), 64, n_clusters=10)
    batches = Batches(IMAGES, 128, augment=Windows())
    history = train(objective, batches, epochs=6, rate=1e-3).history
    for name in ("clusters", "overclusters"):
        assert history[-1][name] < history[0][name] - 0.2  # nats
    features = objective.features(IMAGES[:50]).detach()
    torch.testing.assert_close(features.sum(1), torch.full((50,), 10.0))  # ten heads


def test_an_interrupted_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some, options = IMAGES[:64], {"epochs": 3, "seed": 1, "width": 2}
    whole = iic_features(some, 3, **options)
    file = tmp_path / "iic.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_overdue", lambda loop: loop.position[0] == 1)
        cut = iic_features(some, 3, **options, checkpoint=file)
    assert read_checkpoint(file)[1]["position"]["epoch"] == 1
    kept = iic_features(some, 3, **options, checkpoint=file)
    written = file.stat().st_mtime_ns
    again = iic_features(some, 3, **options, checkpoint=file)
    assert file.stat().st_mtime_ns == written  # nothing was left to do
    assert torch.equal(whole, kept)
    assert torch.equal(kept, again)
    assert not torch.equal(whole, cut)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"x": IMAGES[1:65]}, "rows"),
        ({"n_clusters": 2}, "network"),
        ({"width": 4}, "network"),
        ({"epochs": 3}, "epochs"),
        ({"seed": 5}, "seed"),
        ({"precision": "bfloat16"}, "precision"),
    ],
)
def test_the_state_of_another_training_is_refused(
    change: dict[str, Any], name: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"x": IMAGES[:64], "n_clusters": 3, "epochs": 1, "seed": 1}
    options |= {"width": 2, "checkpoint": tmp_path / "iic.safetensors"}
    iic_features(**options)
    with pytest.raises(ModelFileError, match=f"precision, got another {name};"):
        iic_features(**options | change)
