"""What every model can do, held against all of them with the same body."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits, load_iris, load_wine
from torch import nn

import tell
from tell.adapter import KMeansAdapter, as_model
from tell.contract import (
    AffineInput,
    ClusterModel,
    EncodedInput,
    UpdatableModel,
    squared_distances,
)
from tell.core.loop import Hook
from tell.exceptions import InputError

WINE = load_wine().data
IMAGES = load_digits().images[:150]
MEMBERS = [name for name in vars(ClusterModel) if not name.startswith("_")]


@dataclass(frozen=True)
class Case:
    model: ClusterModel
    X: Any


class OwnEncoder(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 5))


def make(name: str) -> Case:
    deep: dict[str, Any] = {"epochs": 1, "random_state": 0}
    match name:
        case "sphere":
            tell_model = tell.TELL(3, random_state=0).fit(WINE)
            model: ClusterModel = tell_model  # what mypy checks
            return Case(model, WINE)
        case "standardized":
            return Case(tell.TELL(3, standardize=True, random_state=0).fit(WINE), WINE)
        case "euclidean":
            return Case(tell.TELL(3, geometry="euclidean", random_state=0).fit(WINE), WINE)
        case "deep images":
            deep_model = tell.DeepTELL(4, **deep).fit(IMAGES)
            model = deep_model
            return Case(model, IMAGES)
        case "deep table":
            return Case(tell.DeepTELL(3, **deep).fit(WINE), WINE)
        case "deep without decoder":
            return Case(tell.DeepTELL(3, encoder=OwnEncoder(), **deep).fit(IMAGES), IMAGES)
        case "KMeans":
            adapter = KMeansAdapter(KMeans(3, n_init=2, random_state=0).fit(WINE))
            model = adapter
            return Case(model, WINE)
    return Case(as_model(MiniBatchKMeans(3, n_init=2, random_state=0).fit(WINE)), WINE)


NAMES = [
    "sphere",
    "standardized",
    "euclidean",
    "deep images",
    "deep table",
    "deep without decoder",
    "KMeans",
    "MiniBatchKMeans",
]


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest) -> Case:
    return make(request.param)


def test_it_is_a_model(case: Case) -> None:
    assert isinstance(case.model, ClusterModel)
    assert as_model(case.model) is case.model
    for name in MEMBERS:
        wanted = vars(ClusterModel)[name]
        if isinstance(wanted, property):
            continue
        needed = inspect.signature(wanted).parameters
        given = inspect.signature(getattr(type(case.model), name)).parameters
        assert list(given)[: len(needed)] == list(needed)
        extra = list(given.values())[len(needed) :]
        assert all(one.default is not inspect.Parameter.empty for one in extra)


def test_rows_and_centres_live_in_one_space(case: Case) -> None:
    model, about = case.model, case.model.describe()
    Z, centers = model.embed(case.X), model.cluster_centers_
    assert Z.shape == (len(case.X), centers.shape[1])
    if about.geometry == "sphere":
        np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1, rtol=1e-5)
    by_hand = np.linalg.norm(np.asarray(Z)[:, None] - centers[None], axis=2)
    np.testing.assert_allclose(model.transform(case.X), by_hand, rtol=1e-3, atol=2e-3)


def test_distances_decide(case: Case) -> None:
    distances, labels = case.model.transform(case.X), case.model.predict(case.X)
    assert distances.shape == (len(case.X), case.model.describe().n_clusters)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)
    share = case.model.predict_proba(case.X)
    np.testing.assert_allclose(share.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(share.argmax(axis=1), labels)


def test_it_describes_itself(case: Case) -> None:
    about = case.model.describe()
    assert about.n_clusters == len(case.model.cluster_centers_)
    assert about.n_features == np.prod(case.X.shape[1:]) == np.prod(about.input_shape)
    loss = (case.model.transform(case.X) ** 2).min(axis=1).mean()
    assert about.loss is not None
    if about.kind != "MiniBatchKMeans":  # its inertia is that of the last step
        assert about.loss == pytest.approx(loss, rel=1e-3)
    assert about.sizes is not None
    assert about.sizes.sum() == len(case.X)
    assert about.settings["random_state"] == 0
    assert "clustering" in about.minimised
    assert len([run for run in about.runs if run.chosen]) == (1 if about.runs else 0)


def test_points_come_back_in_the_units_of_the_data(case: Case) -> None:
    model, d = case.model, case.X.shape[1:]
    centers = model.centers_in_units()
    assert (centers is None) == (not model.can_decode)
    if centers is not None:
        assert centers.shape == (len(model.cluster_centers_), *d)
        assert model.decode(model.cluster_centers_).shape == centers.shape
        typical = case.X.mean(axis=0)
        assert np.abs(centers - typical).max() < 2 * np.ptp(case.X, axis=0).max()
    if isinstance(model.input_path, AffineInput):
        rows = model.input_path.apply(case.X)
        np.testing.assert_allclose(model.decode(rows), case.X, rtol=1e-6)


def test_columns_reach_the_centres_as_the_path_says(case: Case) -> None:
    path, about = case.model.input_path, case.model.describe()
    squared = case.model.transform(case.X) ** 2
    rows = np.asarray(case.X, np.float64).reshape(len(case.X), -1)
    if isinstance(path, EncodedInput):
        scores = path.scores(path.tensor(rows)).detach().numpy()
        np.testing.assert_allclose(-scores, squared, atol=1e-4)
        assert path.spread.shape == (about.n_features,)
    else:
        found = squared_distances(path.apply(rows), case.model.cluster_centers_, about.geometry)
        np.testing.assert_allclose(found, squared, rtol=1e-4, atol=1e-6)


def test_another_seed_makes_another_model_of_the_same_kind(case: Case) -> None:
    again = case.model.refit(case.X, 1)
    assert again is not None
    assert again.describe().kind == case.model.describe().kind
    assert again.describe().settings["random_state"] == 1
    assert again.cluster_centers_.shape == case.model.cluster_centers_.shape


def test_it_comes_back_from_its_folder(case: Case, tmp_path: Path) -> None:
    case.model.save(tmp_path / "model", metadata={"note": "kept"})
    loaded: ClusterModel = tell.load(tmp_path / "model", trust=True)
    assert isinstance(loaded, ClusterModel)
    np.testing.assert_array_equal(loaded.predict(case.X), case.model.predict(case.X))
    np.testing.assert_allclose(loaded.transform(case.X), case.model.transform(case.X), rtol=1e-6)
    before, after = case.model.describe(), loaded.describe()
    for name in ("kind", "geometry", "n_features", "input_shape", "minimised", "loss", "runs"):
        assert getattr(after, name) == getattr(before, name)
    np.testing.assert_array_equal(after.sizes, before.sizes)
    assert loaded.metadata_ == {"note": "kept"}  # type: ignore[attr-defined]


def test_it_can_be_explained(case: Case) -> None:
    facts = tell.explain(case.model, case.X, rows=[5], map_method=None, quality=False)
    assert [c.size for c in facts.clusters] == np.bincount(
        case.model.predict(case.X), minlength=facts.model.n_clusters
    ).tolist()
    exact = isinstance(case.model.input_path, AffineInput)
    assert facts.points[0].method == ("exact" if exact else "integrated gradients")


def test_only_ours_learn_further(case: Case) -> None:
    assert isinstance(case.model, UpdatableModel) == (not isinstance(case.model, KMeansAdapter))


class Watch(Hook):
    """Notes the terms of the latest step that weigh something."""

    def on_step_end(self, loop: Any, losses: Any) -> None:
        weights = loop.objective.weights()
        self.minimised = {name for name in losses.terms if weights.get(name, 1.0) != 0}


@pytest.mark.parametrize(
    "options",
    [
        {"recipe": "tell"},
        {"recipe": "tell", "encoder": OwnEncoder()},
        {"recipe": "distil"},
        {"recipe": tell.PaperRecipe(n_init=1)},
        {"recipe": tell.PaperRecipe(n_init=1, two_stage=True)},
        {"recipe": tell.PaperRecipe(n_init=1), "encoder": OwnEncoder()},
    ],
    ids=["tell", "tell, no decoder", "distil", "paper", "two stages", "no decoder"],
)
@pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")  # after one epoch
def test_a_deep_model_says_what_its_last_steps_minimised(options: dict[str, Any]) -> None:
    watch = Watch()
    rows = np.concatenate([IMAGES, IMAGES])  # the paper's recipe drops incomplete batches of 256
    model = tell.DeepTELL(3, epochs=1, hooks=[watch], random_state=0, **options).fit(rows)
    assert set(model.describe().minimised) == watch.minimised


def test_an_unfitted_model_is_no_model() -> None:
    for model in (tell.TELL(3), tell.DeepTELL(3), KMeans(3), object()):
        with pytest.raises(InputError, match="fit it first"):
            as_model(model)


def test_what_a_stranger_minimised_is_not_claimed() -> None:
    centers = load_iris().data[[0, 60, 120]]
    stranger = SimpleNamespace(
        cluster_centers_=centers,
        predict=lambda X: squared_distances(X, centers, "euclidean").argmin(axis=1),
    )
    model = as_model(stranger)
    assert model.describe().minimised == ()
    assert model.describe().loss is None
    assert model.refit(load_iris().data, 1) is None
    facts = tell.explain(stranger, load_iris().data, map_method="pca")
    assert facts.quality is not None
    assert facts.quality.stability is not None
    assert facts.quality.stability.seed is None
    assert "is not known here" in facts.model.parts[3].meaning


def test_a_distance_of_large_numbers_keeps_its_digits() -> None:
    random = np.random.default_rng(0)
    rows, centers = random.normal(size=(20, 3)) + 1e9, random.normal(size=(4, 3)) + 1e9
    by_hand = ((rows[:, None] - centers[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(rows, centers, "euclidean"), by_hand, rtol=1e-6)
