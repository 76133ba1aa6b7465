"""The start for photographs: neighbours are learned from moved copies before clusters are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from tell import DeepTELL
from tell.core.autoencoder import UnitLength
from tell.core.loop import Hook, Loop
from tell.estimators import ContrastiveStart, DistilRecipe, TellRecipe, Views, load
from tell.estimators.deep.recipes.contrastive import before_last
from tell.exceptions import ParameterError

IMAGES = load_digits().images[:300]
SHORT = ContrastiveStart(
    contrast_epochs=2, epochs=1, layout_epochs=10, distil_steps=10, neighbours=8
)
pytestmark = pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")


def model(**options: Any) -> DeepTELL:
    recipe = TellRecipe(epochs=1, start=SHORT, views=Views(epochs=1))
    defaults = {"recipe": recipe, "augment": "affine", "random_state": 0}
    return DeepTELL(10, **defaults | options)


class Seen(Hook):
    """What the stages were trained on."""

    def __init__(self) -> None:
        self.partners: dict[str, Any] = {}

    def on_epoch_start(self, loop: Loop) -> None:
        self.partners[loop.name] = loop.batches.partners


def colours_and_shapes() -> tuple[np.ndarray, np.ndarray]:
    """Images of a bar in one of four directions; their brightness is noise, and most of pixels."""
    random = np.random.default_rng(0)
    kind = np.arange(400) % 4
    images = np.zeros((400, 1, 12, 12))
    for image, one in zip(images, kind, strict=True):
        line = np.arange(2, 10)
        rows, columns = [
            (line, 0 * line + 6),
            (0 * line + 6, line),
            (line, line),
            (line, 11 - line),
        ][one]
        image[0, rows, columns] = 1
    light = random.uniform(0, 1, (400, 1, 1, 1))
    return (0.3 * images + 0.7 * light).astype(np.float32), kind


def other_light(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    change = torch.rand(len(images), 1, 1, 1, generator=generator)
    least = images.amin((1, 2, 3), keepdim=True)
    return images - least + 0.7 * change


def test_neighbours_are_near_in_what_was_learned_not_in_pixels() -> None:
    X, kind = colours_and_shapes()
    seen = Seen()
    start = ContrastiveStart(contrast_epochs=30, epochs=1, layout_epochs=10, distil_steps=10)
    recipe = TellRecipe(epochs=1, start=start, views=Views(epochs=1, neighbours=3))
    DeepTELL(4, recipe=recipe, augment=other_light, hooks=[seen], random_state=0).fit(X)
    neighbours = seen.partners["views"][:, 3:].numpy()  # after the row itself
    by_pixels = np.abs(X[:, None].mean((2, 3, 4)) - X[None].mean((2, 3, 4)))
    np.fill_diagonal(by_pixels, np.inf)
    assert np.mean(kind[by_pixels.argmin(1)] == kind) < 0.5
    assert np.mean(kind[neighbours] == kind[:, None]) > 0.9


def test_the_stages_and_their_order() -> None:
    fitted = model().fit(IMAGES)
    stages = list(dict.fromkeys(line["stage"] for line in fitted.history_))
    assert stages == ["contrast", "distil", "refine", "views", "tell"]
    assert all(np.isfinite(line["contrast"]) for line in fitted.history_[:2])


def test_an_interrupted_fit_ends_at_the_same_model(tmp_path: Path) -> None:
    expected = model().fit(IMAGES)
    for stage in ("contrast", "refine", "views", "tell"):
        folder = tmp_path / stage

        class Cut(Hook):
            def __init__(self, stage: str) -> None:
                self.stage = stage

            def on_epoch_start(self, loop: Loop) -> None:
                if loop.name == self.stage:
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            model(checkpoint=folder, hooks=[Cut(stage)]).fit(IMAGES)
        again = model(checkpoint=folder).fit(IMAGES)
        assert np.array_equal(again.cluster_centers_, expected.cluster_centers_), stage


def test_it_is_kept_in_a_model_folder(tmp_path: Path) -> None:
    fitted = model().fit(IMAGES)
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.recipe.start == SHORT
    assert np.array_equal(again.predict(IMAGES), fitted.labels_)


def test_labels_alone_may_begin_there_too() -> None:
    fitted = model(recipe=DistilRecipe(start=SHORT)).fit(IMAGES)
    assert fitted.history_[-1]["stage"] == "refine"


def test_it_needs_augmentation_and_a_number_of_clusters() -> None:
    with pytest.raises(ParameterError, match="must come with augmentation"):
        model(augment=None).fit(IMAGES)
    auto = DeepTELL("auto", start="contrastive", augment="affine")
    with pytest.raises(ParameterError, match="start='contrastive'; pass the number"):
        auto.fit(IMAGES)


@pytest.mark.parametrize(
    ("encoder", "expected"),
    [
        (nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), UnitLength()), 3),
        (nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), UnitLength()), 3),
        (nn.Sequential(nn.Linear(4, 2), UnitLength()), 2),
        (nn.Linear(4, 2), 2),
    ],
)
def test_features_are_those_before_the_last_layer(encoder: nn.Module, expected: int) -> None:
    assert before_last(encoder)(torch.ones(1, 4)).shape == (1, expected)
