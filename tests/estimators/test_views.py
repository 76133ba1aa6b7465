"""Views between a start and eq. 15: where they come from, what they change, what they may not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_blobs

from tell.core.augment import Affine
from tell.core.loop import Hook, Loop
from tell.estimators import load
from tell.estimators.deep.estimator import DeepTELL
from tell.estimators.deep.recipes.given_labels import LabelStart
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.kmeans import KMeansStart
from tell.estimators.deep.recipes.partition import Graph
from tell.estimators.deep.recipes.tell_recipe import TellRecipe
from tell.estimators.deep.recipes.views import Views, neighbours_of
from tell.exceptions import ParameterError
from tell.metrics import accuracy

DIGITS = load_digits()
IMAGES, TARGET = DIGITS.images[:300], DIGITS.target[:300]
START = GraphStart(epochs=2, layout_epochs=20, distil_steps=20)
pytestmark = pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")


class Kept(Hook):
    """What a stage began and ended with."""

    def __init__(self, stage: str = "views") -> None:
        self.stage = stage
        self.loop: Loop | None = None

    def on_epoch_start(self, loop: Loop) -> None:
        if loop.name == self.stage:
            self.loop = loop


def stages(model: DeepTELL) -> list[str]:
    return list(dict.fromkeys(line["stage"] for line in model.history_))


def test_views_are_the_neighbours_in_the_graph_of_the_start() -> None:
    kept = Kept()
    recipe = TellRecipe(epochs=1, start=START, views=Views(epochs=2, neighbours=3))
    DeepTELL(10, recipe=recipe, random_state=0, hooks=[kept]).fit(IMAGES)
    assert kept.loop is not None
    partners = kept.loop.batches.partners
    assert partners.shape == (300, 3)
    assert not bool((partners == torch.arange(300)[:, None]).any())
    assert np.mean(TARGET[partners.numpy()] == TARGET[:, None]) > 0.9
    assert kept.loop.batches.augment is None
    assert kept.loop.objective.balance == 1


def test_with_augmentation_both_views_move() -> None:
    kept = Kept()
    recipe = TellRecipe(epochs=1, start=START, views=Views(epochs=1, neighbours=2))
    options: dict[str, Any] = {"augment": "affine", "random_state": 0, "hooks": [kept]}
    DeepTELL(10, recipe=recipe, **options).fit(IMAGES)
    assert kept.loop is not None
    assert isinstance(kept.loop.batches.augment, Affine)
    assert kept.loop.objective.balance == 5
    # As often the row itself as one of its neighbours.
    itself, neighbours = kept.loop.batches.partners.split(2, dim=1)
    assert bool((itself == torch.arange(300)[:, None]).all())
    assert not bool((neighbours == torch.arange(300)[:, None]).any())
    copies = TellRecipe(epochs=1, start=START, views=Views(epochs=1, neighbours=0))
    DeepTELL(10, recipe=copies, **options).fit(IMAGES)
    assert kept.loop.batches.partners.flatten().tolist() == list(range(300))


@pytest.mark.parametrize(
    ("augment", "views", "rate", "expected"),
    [
        (None, Views(epochs=1), None, 3e-4),
        ("affine", Views(epochs=1), None, 1e-4),
        ("affine", None, None, 3e-4),
        ("affine", Views(epochs=1), 5e-4, 5e-4),
    ],
)
def test_eq_15_is_gentle_after_moved_views(
    augment: str | None, views: Views | None, rate: float | None, expected: float
) -> None:
    kept = Kept("tell")
    recipe = TellRecipe(epochs=1, start=START, views=views, learning_rate=rate)
    DeepTELL(10, recipe=recipe, augment=augment, random_state=0, hooks=[kept]).fit(IMAGES)
    assert kept.loop is not None
    assert kept.loop.optimizer.defaults["lr"] == expected


@pytest.mark.parametrize(
    ("augment", "begins", "ends"), [(None, 1e-3, 3e-5), ("affine", 1e-4, 1e-5)]
)
def test_rates_after_moved_views_are_those_of_every_start(
    augment: str | None, begins: float, ends: float
) -> None:
    kept = Kept("tell")
    start = KMeansStart(epochs=1, seedings=1)
    recipe = TellRecipe(epochs=1, start=start, views=Views(epochs=1, neighbours=3))
    DeepTELL(10, recipe=recipe, augment=augment, random_state=0, hooks=[kept]).fit(IMAGES)
    assert kept.loop is not None
    factors = [kept.loop.rate(done) for done in (0.0, 0.5, 1.0)]
    rates = [kept.loop.optimizer.defaults["lr"] * factor for factor in factors]
    np.testing.assert_allclose(rates, [begins, ends, ends])


@pytest.mark.parametrize(("views", "moved"), [(Views(epochs=1), False), (None, True)])
def test_the_start_learns_from_rows_as_they_are_where_views_follow(
    views: Views | None, moved: bool
) -> None:
    kept = {name: Kept(name) for name in ("distil", "refine", "tell")}
    recipe = TellRecipe(epochs=1, start=START, views=views)
    model = DeepTELL(10, recipe=recipe, augment="affine", random_state=0)
    model.set_params(hooks=list(kept.values())).fit(IMAGES)
    is_moved = {
        name: hook.loop is not None and hook.loop.batches.augment is not None
        for name, hook in kept.items()
    }
    assert is_moved == {"distil": moved, "refine": moved, "tell": True}


def test_before_the_views_augmentation_changes_nothing() -> None:
    recipe = TellRecipe(epochs=1, start=START, views=Views(epochs=1))
    fits = [
        DeepTELL(10, recipe=recipe, augment=augment, random_state=0).fit(IMAGES).history_
        for augment in (None, "affine")
    ]
    still, moved = (
        [line | {"seconds": 0} for line in lines if line["stage"] in ("distil", "refine")]
        for lines in fits
    )
    assert still == moved  # the same graph, the same partition, the same steps


def test_they_raise_the_mutual_information_and_pull_rows_to_their_centres() -> None:
    start = GraphStart()
    fits = [
        DeepTELL(10, recipe=TellRecipe(start=start, views=views), epochs=1, random_state=0)
        for views in (Views(), None)
    ]
    with_views, without = (model.fit(DIGITS.images) for model in fits)
    lines = [line for line in with_views.history_ if line["stage"] == "views"]
    assert lines[-1]["views"] < lines[0]["views"] < -1.5  # log 10 is 2.3
    assert lines[-1]["clustering"] < 0.8 * lines[0]["clustering"]  # without a weight
    assert lines[-1]["reconstruction"] < 1.1 * lines[0]["reconstruction"]  # decoder in step
    scores = [accuracy(DIGITS.target, model.labels_) for model in (with_views, without)]
    assert scores[0] > scores[1] - 0.01
    assert with_views.loss_ < without.loss_


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_uneven_groups_keep_their_sizes(seed: int) -> None:
    sizes = [1000, 300, 100, 50]
    X, y = make_blobs(sizes, n_features=8, cluster_std=1.0, random_state=3)
    kept = Kept()
    model = DeepTELL(4, random_state=seed, hooks=[kept]).fit(X)
    assert accuracy(y, model.labels_) > 0.99
    assert kept.loop is not None
    prior: Any = kept.loop.objective.prior
    assert sorted(prior.tolist()) == pytest.approx([51 / 1454, 101 / 1454, 301 / 1454, 1001 / 1454])


def test_uneven_groups_that_overlap_are_not_made_even() -> None:
    """Equal sizes as the prior end at 55 percent here, below the start's 57."""
    X, y = make_blobs([1000, 200, 50], n_features=2, cluster_std=1.5, random_state=3)
    start = DeepTELL(3, recipe="distil", random_state=0).fit(X)
    recipe = TellRecipe(views=Views(epochs=30))
    model = DeepTELL(3, recipe=recipe, random_state=0).fit(X)
    assert accuracy(y, model.labels_) > accuracy(y, start.labels_) - 0.01
    assert model.cluster_sizes_.max() > start.cluster_sizes_.max()


@pytest.mark.parametrize(
    ("start", "augment", "views", "expected"),
    [
        (START, None, "auto", True),
        (START, None, None, False),
        (LabelStart(labels=TARGET, distil_steps=5, epochs=1), None, "auto", False),
        (LabelStart(labels=TARGET, distil_steps=5, epochs=1), "affine", "auto", True),
        (LabelStart(labels=TARGET, distil_steps=5, epochs=1), None, Views(epochs=1), True),
        (KMeansStart(epochs=1), None, "auto", False),
        (KMeansStart(epochs=1), None, Views(epochs=1), True),
        ("random", "affine", "auto", False),
    ],
)
def test_who_takes_views(start: Any, augment: str | None, views: Any, expected: bool) -> None:
    recipe = TellRecipe(epochs=1, start=start, views=views)
    model = DeepTELL(10, recipe=recipe, augment=augment, random_state=0).fit(IMAGES)
    assert ("views" in stages(model)) == expected
    assert stages(model)[-1] == "tell"


def test_adversarial_views_move_by_a_quarter_of_the_way_to_the_tenth_neighbour() -> None:
    """On a table, where the graph's features are the columns as the network sees them."""
    kept = Kept()
    X = make_blobs([80, 40], n_features=3, random_state=0)[0] * [1.0, 10.0, 0.1]
    start = GraphStart(epochs=1, layout_epochs=5, distil_steps=5)
    recipe = TellRecipe(epochs=1, start=start, views=Views(1, neighbours=0, adversarial=True))
    DeepTELL(2, recipe=recipe, random_state=0, hooks=[kept]).fit(X)
    assert kept.loop is not None
    assert kept.loop.batches.partners.flatten().tolist() == list(range(120))
    x = kept.loop.batches.stored
    tenth = torch.cdist(x, x).sort(dim=1).values[:, 10]
    radius: Any = kept.loop.objective.radius
    torch.testing.assert_close(radius, 0.25 * tenth, rtol=1e-3, atol=1e-4)
    assert not np.allclose(radius, radius.mean())


@pytest.mark.parametrize("neighbours", [0, 2])
@pytest.mark.parametrize("start", [START, LabelStart(labels=TARGET, distil_steps=5, epochs=1)])
def test_adversarial_views_of_images(start: Any, neighbours: int) -> None:
    kept = Kept()
    views = Views(1, neighbours=neighbours, adversarial=True, radius=0.5)
    recipe = TellRecipe(epochs=1, start=start, views=views)
    DeepTELL(10, recipe=recipe, random_state=0, hooks=[kept]).fit(IMAGES)
    assert kept.loop is not None
    assert kept.loop.batches.partners.shape == (300, neighbours or 1)
    radius: Any = kept.loop.objective.radius
    typical = np.linalg.norm(np.diff(IMAGES.reshape(300, -1), axis=0), axis=1).mean() / 16
    assert 0.1 * typical < radius.mean() < 0.5 * typical


def test_rows_outside_the_graph_have_neighbours_in_it() -> None:
    start = GraphStart(epochs=1, layout_epochs=5, distil_steps=5, graph_rows=200)
    kept = Kept()
    recipe = TellRecipe(epochs=1, start=start, views=Views(epochs=1))
    DeepTELL(10, recipe=recipe, random_state=0, hooks=[kept]).fit(IMAGES)
    assert kept.loop is not None
    partners = kept.loop.batches.partners
    assert len(partners) == 300
    assert len(partners.unique()) <= 200
    assert np.mean(TARGET[partners.numpy()] == TARGET[:, None]) > 0.8


def test_too_few_rows_have_no_other_views() -> None:
    empty = torch.empty(3, 0)
    assert neighbours_of(Graph(torch.arange(3), empty.long(), empty, empty), 3, most=5) is None
    model = DeepTELL(2, epochs=1, random_state=0).fit(np.arange(12.0).reshape(6, 2))
    assert stages(model)[-1] == "tell"
    assert "views" not in stages(model)


def test_the_options_are_kept_in_a_model_folder(tmp_path: Path) -> None:
    recipe = TellRecipe(epochs=1, start=START, views=Views(epochs=1, neighbours=3, weight=0.2))
    DeepTELL(10, recipe=recipe, random_state=0).fit(IMAGES).save(tmp_path / "model")
    assert load(tmp_path / "model").recipe == recipe


@pytest.mark.parametrize(
    "views",
    [
        "neighbours",
        {"steps": 3},
        {"neighbours": -1},
        {"temperature": 0.0},
        {"batch_size": 1},
        {"radius": 0.0},
        5,
    ],
)
def test_bad_views_are_named(views: Any) -> None:
    with pytest.raises(ParameterError, match="views"):
        TellRecipe(views=views)


@pytest.mark.parametrize("views", [Views(neighbours=9), Views(adversarial=True)])
def test_views_need_a_graph_with_as_many_neighbours(views: Views) -> None:
    recipe = TellRecipe(epochs=1, start=START, views=replace(views, epochs=1))
    few = replace(START, neighbours=8)
    with pytest.raises(ParameterError, match=r"start=GraphStart\(neighbours=(9|10)\)"):
        DeepTELL(3, recipe=recipe, start=few).fit(IMAGES)
    # The start of the estimator takes the place of that of the recipe.
    DeepTELL(3, recipe=replace(recipe, start=few), start=replace(START, neighbours=10)).fit(IMAGES)
    DeepTELL(10, recipe=replace(recipe, start=few), start=TARGET).fit(IMAGES)
