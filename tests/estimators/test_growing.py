"""Streams whose clusters are born and retired: numbers stay, nothing is learned twice or lost."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tell import (
    TELL,
    GrowthWarning,
    InputError,
    ModelFileError,
    ParameterError,
    explain,
    load,
    open_source,
)
from tell.estimators.tell_saving import describe, restore, tensors_of
from tell.estimators.updating import in_words
from tell.persistence import SavedModel

CENTERS = 12 * np.random.default_rng(5).normal(size=(5, 6))
QUIET = pytest.mark.filterwarnings("ignore::tell.DriftWarning", "ignore::tell.GrowthWarning")


def rows(n: int, among: list[int], seed: int, geometry: str = "euclidean") -> np.ndarray:
    """Rows of some of the groups; for the sphere with lengths of their own."""
    random = np.random.default_rng(seed)
    X = CENTERS[random.choice(among, n)] + random.normal(size=(n, 6))
    return X * random.lognormal(0, 0.5, (n, 1)) if geometry == "sphere" else X


def fed(model: TELL, n: int, among: list[int], seed: int, batch: int = 50) -> TELL:
    X = rows(n, among, seed, model.geometry)
    for start in range(0, n, batch):
        model.partial_fit(X[start : start + batch])
    return model


def started(geometry: str = "euclidean", **options: Any) -> TELL:
    model = TELL(3, geometry=geometry, grow=True, random_state=0, **options)
    return model.fit(rows(1500, [0, 1, 2], 0, geometry))


@QUIET
@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
@pytest.mark.parametrize("half_life", [None, 500])
def test_a_fourth_cluster_is_found_and_the_others_keep_their_numbers(
    geometry: str, half_life: float | None
) -> None:
    model = fed(started(geometry, half_life=half_life), 3000, [0, 1, 2], 1)
    before = model.cluster_centers_
    assert model.growth_ == []
    fed(model, 4000, [0, 1, 2, 3], 2)
    assert [entry["event"] for entry in model.growth_] == ["born"]
    assert model.n_clusters_ == 4
    assert np.linalg.norm(model.cluster_centers_[:3] - before, axis=1).max() < 0.5
    X = rows(2000, [3], 3, geometry)
    assert (model.predict(X) == 3).mean() > 0.99
    assert abs((model.predict(X, reject=0.05) == -1).mean() - 0.05) < 0.05
    born = model.growth_[0]
    assert born["cluster"] == 3
    assert 4500 + 1000 <= born["seen"] <= 4500 + 2000  # after the stated time, not long after it


@QUIET
def test_one_large_batch_grows_as_many_small_ones() -> None:
    model, X = started(), rows(6000, [0, 1, 2, 3], 2)
    model.partial_fit(X)
    assert [entry["event"] for entry in model.growth_] == ["born"]
    assert model.labels_.shape == (6000,)
    assert model.n_seen_ == 7500
    small = fed(started(), 6000, [0, 1, 2, 3], 2)
    assert np.abs(model.cluster_centers_ - small.cluster_centers_).max() < 0.3


@QUIET
def test_usual_rows_give_birth_to_nothing() -> None:
    model = fed(started(), 20_000, [0, 1, 2], 1, batch=200)
    assert model.growth_ == []
    assert model.n_clusters_ == 3
    assert abs((model.predict(rows(20_000, [0, 1, 2], 9), reject=0.01) == -1).mean() - 0.01) < 0.004


@QUIET
def test_waiting_rows_are_learned_in_the_end() -> None:
    """No row is lost: after their waiting the sums are those of all rows."""
    model = fed(started(), 6000, [0, 1, 2], 1)
    waiting = int(model.stream_[-1]["waiting"])
    assert waiting > 0
    assert model.cluster_sizes_.sum() + waiting == 7500 == model.n_seen_


@QUIET
def test_a_burst_is_no_cluster_and_neither_are_scattered_rows() -> None:
    model = started()
    model.partial_fit(rows(200, [3], 1))
    fed(model, 3000, [0, 1, 2], 2)
    assert model.growth_ == []
    random = np.random.default_rng(0)
    for seed in range(40):
        far = 60 * random.normal(size=(5, 6))
        model.partial_fit(np.concatenate([rows(95, [0, 1, 2], 10 + seed), far]))
    assert [entry for entry in model.growth_ if entry["event"] == "born"] == []


@pytest.fixture(scope="module")
def aged() -> TELL:
    """Groups 1 and 2 stop, 3 comes, and then 1 comes again: with a number of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TELL(3, geometry="euclidean", grow=300, random_state=0)
        model.fit(rows(1500, [0, 1, 2], 0))
        first = model.predict(CENTERS[1][None])[0]
        fed(model, 5000, [0, 2, 3], 1)
        fed(model, 2000, [0, 1, 2, 3], 2)
    model.first_ = first  # type: ignore[attr-defined]
    return model


def test_retired_numbers_are_never_used_again(aged: TELL) -> None:
    gone = aged.first_  # type: ignore[attr-defined]
    assert [entry["event"] for entry in aged.growth_] == ["born", "retired", "born"]
    assert aged.retired_ == [gone]
    assert aged.n_clusters_ == 5
    X = rows(1000, [1], 5)
    assert (aged.predict(X) == 4).mean() > 0.99
    everything = rows(3000, [0, 1, 2, 3], 6)
    assert gone not in aged.predict(everything)
    assert np.isinf(aged.transform(everything)[:, gone]).all()
    proba = aged.predict_proba(everything)
    assert (proba[:, gone] == 0).all()
    assert np.allclose(proba.sum(axis=1), 1)
    assert np.array_equal(aged.transform(everything).argmin(axis=1), aged.predict(everything))


def test_workers_give_no_row_to_a_retired_cluster(aged: TELL) -> None:
    from tell.estimators.all_rows import labelling_task, local_workers

    X = rows(3000, [0, 1, 2, 3], 6)
    found = local_workers(open_source(X)).each("labels", labelling_task(aged))[0]
    assert np.array_equal(found, aged.predict(X))
    assert aged.layer_.n_clusters == 4


@QUIET
def test_saved_and_loaded_it_goes_on_as_if_it_had_never_stopped(aged: TELL, tmp_path: Path) -> None:
    aged.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, TELL)
    assert again.growth_ == aged.growth_
    assert again.retired_ == aged.retired_
    new = rows(3000, [0, 1, 2, 3, 4], 8)
    assert np.array_equal(again.predict(new), aged.predict(new))
    interrupted = fed(started(), 800, [0, 1, 2, 3], 1)
    interrupted.save(tmp_path / "other")
    later = load(tmp_path / "other")
    assert isinstance(later, TELL)
    for model in (interrupted, later):
        fed(model, 1600, [0, 1, 2, 3], 2)
    assert interrupted.growth_ == later.growth_ != []
    assert np.array_equal(interrupted.cluster_centers_, later.cluster_centers_)


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("growth.when", torch.full((1,), torch.nan)),
        ("growth.last", torch.zeros(2)),
        ("growth.retired", torch.ones(5, dtype=torch.bool)),
        ("growth.rows", torch.zeros(1, 3)),
    ],
)
def test_damaged_growth_is_refused(aged: TELL, name: str, damaged: torch.Tensor) -> None:
    saved = SavedModel("TELL", describe(aged), tensors_of(aged) | {name: damaged})
    with pytest.raises(ModelFileError, match="does not fit its tensors"):
        restore(TELL(), saved)


@QUIET
def test_auto_grows_too_and_is_saved(tmp_path: Path) -> None:
    model = TELL("auto", geometry="euclidean", grow=200, random_state=0)
    model.fit(rows(600, [0, 1, 2], 0))
    fed(model, 1500, [0, 1, 2, 3], 1)
    assert model.n_clusters_ == 4
    model.save(tmp_path / "model")
    assert np.array_equal(
        load(tmp_path / "model").predict(rows(100, [3], 2)), model.predict(rows(100, [3], 2))
    )


def test_explanations_speak_of_those_that_take_rows(aged: TELL) -> None:
    X = rows(800, [0, 1, 2, 3], 6)
    facts = explain(aged, X, map_method=None, quality=False)
    assert len(facts.clusters) == 4
    sizes = {facts.cluster_title(one.index): one.size for one in facts.clusters}
    labels = aged.predict(X)
    assert sizes == {f"cluster {j}": (labels == j).sum() for j in np.unique(labels)}
    with pytest.raises(ParameterError, match=r"was retired; export model\.without_retired"):
        aged.to_sql()
    slim = aged.without_retired()
    numbers = [j for j in range(5) if j not in aged.retired_]
    assert np.array_equal(np.array(numbers)[slim.predict(X)], labels)
    assert np.allclose(slim.reject_limits(0.01), aged.reject_limits(0.01)[numbers], rtol=0.05)


@QUIET
def test_a_new_fit_like_it_begins_with_those_that_take_rows(aged: TELL) -> None:
    X = rows(1500, [0, 1, 2, 3], 7)
    new = TELL(4, geometry="euclidean", random_state=0).fit(X, like=aged)
    fates = {entry["was"]: entry["fate"] for entry in new.lineage_}
    assert fates[aged.first_] == "died"  # type: ignore[attr-defined]
    assert new.loss_ < 7


@pytest.mark.filterwarnings("ignore::tell.DriftWarning")
def test_births_are_announced() -> None:
    model = fed(started(), 500, [0, 1, 2], 1)
    with pytest.warns(GrowthWarning, match=r"cluster 3 was born after [\d,]+ rows, of \d+ rows"):
        fed(model, 2500, [0, 1, 2, 3], 2)
    assert in_words(model.growth_[0]).startswith("cluster 3 was born")
    assert sum(entry["born"] for entry in model.stream_) == 1


@QUIET
def test_weights_count_as_repetitions() -> None:
    """Every row twice, or once with weight 2: the same birth at the same place."""
    twice, weighted = started(), started()
    X = rows(3000, [0, 1, 2, 3], 2)
    for start in range(0, 3000, 50):
        part = X[start : start + 50]
        twice.partial_fit(np.repeat(part, 2, axis=0))
        weighted.partial_fit(part, sample_weight=np.full(len(part), 2.0))
    assert twice.growth_ == weighted.growth_ != []
    assert np.allclose(twice.cluster_centers_, weighted.cluster_centers_, atol=1e-6)


@pytest.mark.parametrize("grow", [0, -5, 1.5, "yes", None])
def test_bad_times_are_named(grow: Any) -> None:
    with pytest.raises(ParameterError, match="grow must be a whole number of at least 1 of rows"):
        TELL(2, grow=grow).fit(rows(50, [0, 1], 0))


@QUIET
def test_without_growing_nothing_changes() -> None:
    X, more = rows(900, [0, 1, 2], 0), rows(300, [0, 1, 2, 3], 1)
    plain = TELL(3, geometry="euclidean", random_state=0).fit(X).partial_fit(more)
    assert plain.growth_ == []
    assert plain.retired_ == []
    assert plain.without_retired() is plain
    assert "born" not in plain.stream_[-1]
    with pytest.raises(InputError):
        plain.partial_fit(np.full((2, 6), np.nan))
