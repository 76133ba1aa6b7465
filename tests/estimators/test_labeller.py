"""A model opened for labels alone gives those of `TELL.predict`, whatever model and rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from tell import TELL, load
from tell.adapter import KMeansAdapter, as_model
from tell.data.arrays import ArraySource
from tell.estimators.labeller import Labeller, open_labeller
from tell.exceptions import InputError, ModelFileError
from tell.persistence import read_model, write_model

DIGITS = load_digits().data
SMALL = DIGITS.astype(np.float32)


def grown() -> TELL:
    """A stream with a cluster that takes no rows any more."""
    random = np.random.default_rng(0)
    near, far = (m + random.standard_normal((4000, 3)) for m in (np.zeros(3), np.full(3, 30.0)))
    model = TELL(2, geometry="euclidean", grow=50, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        model.fit(np.concatenate([near[:300], far[:300]]))
        for start in range(0, 4000, 100):
            model.partial_fit(near[start : start + 100])
    assert model.retired_
    return model


MODELS: dict[str, Callable[[], tuple[TELL, np.ndarray]]] = {
    "sphere": lambda: (TELL(10, random_state=0).fit(SMALL), SMALL),
    "sphere, float64": lambda: (TELL(10, random_state=0).fit(DIGITS), DIGITS),
    "euclidean": lambda: (TELL(10, geometry="euclidean", random_state=0).fit(SMALL), SMALL),
    "other precision": lambda: (TELL(10, geometry="euclidean", random_state=0).fit(SMALL), DIGITS),
    "standardised": lambda: (TELL(40, standardize=True, random_state=0).fit(DIGITS), DIGITS),
    "chosen": lambda: (TELL("auto", max_clusters=4, random_state=0).fit(SMALL[:300]), SMALL),
    "far from 0": lambda: (
        TELL(5, geometry="euclidean", random_state=0).fit(DIGITS + 1e6),
        DIGITS + 1e6,
    ),
    "retired": lambda: (grown(), np.random.default_rng(1).normal(10, 12, (500, 3))),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_label_is_that_of_the_model(name: str, tmp_path: Path) -> None:
    model, rows = MODELS[name]()
    model.save(tmp_path / "model", metadata={"own": 1})
    light, whole = open_labeller(tmp_path / "model"), load(tmp_path / "model")
    assert isinstance(light, Labeller)
    np.testing.assert_array_equal(light.predict(ArraySource(rows)), whole.predict(rows))
    assert "model" not in vars(light)  # which would have loaded torch
    np.testing.assert_array_equal(light.cluster_centers_, whole.cluster_centers_)
    assert light.metadata_ == {"own": 1}
    assert light.n_features_in_ == whole.n_features_in_


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_the_last_tie_is_broken_alike(
    tmp_path_factory: pytest.TempPathFactory, seed: int, k: int, d: int
) -> None:
    """Small whole numbers: many rows are equally far from several centres, or on top of one."""
    random = np.random.default_rng(seed)
    rows = random.integers(-2, 3, (400, d)).astype(random.choice([np.float32, np.float64]))
    place = tmp_path_factory.mktemp("tied")
    for geometry in ("sphere", "euclidean"):
        with warnings.catch_warnings(action="ignore"):
            init = np.unique(rows[rows.any(axis=1)], axis=0)
            init = init[random.permutation(len(init))[:k]]
            model = TELL(len(init), init=init, geometry=geometry, max_iter=1, random_state=0)
            model.fit(rows).save(place / geometry)
        light, whole = open_labeller(place / geometry), load(place / geometry)
        for n in (1, 7, 400):
            np.testing.assert_array_equal(
                light.predict(ArraySource(rows[:n])), whole.predict(rows[:n])
            )


def test_a_prepared_table_keeps_its_columns_and_names(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": random.normal(40, 9, 200), "city": random.choice(["Ulm", "Bonn"], 200)}
    )
    table.loc[3, "age"] = None
    model = TELL(3, geometry="euclidean", random_state=0).fit(table).name_clusters({1: "Old"})
    model.save(tmp_path / "model")
    light = open_labeller(tmp_path / "model")
    assert isinstance(light, Labeller)
    assert light.preparation_ == model.preparation_
    assert light.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    assert light.metadata_ == model.metadata_


def test_rows_that_need_care_are_left_to_the_model(tmp_path: Path) -> None:
    model = TELL(10, geometry="euclidean", random_state=0).fit(DIGITS)
    model.save(tmp_path / "model")
    light = open_labeller(tmp_path / "model")
    rows = np.concatenate([DIGITS[:5], model.cluster_centers_[[4]]])
    np.testing.assert_array_equal(light.predict(ArraySource(rows)), model.predict(rows))
    assert "model" in vars(light)
    with pytest.raises(InputError, match="64 columns"):
        light.predict(ArraySource(DIGITS[:5, :7].copy()))


def test_the_model_comes_from_the_bytes_that_were_read(tmp_path: Path) -> None:
    """Somebody saves another one meanwhile: labels of two models are never mixed."""
    first = TELL(10, geometry="euclidean", random_state=0).fit(DIGITS)
    first.save(tmp_path / "model")
    light = open_labeller(tmp_path / "model")
    TELL(3, geometry="euclidean", random_state=5).fit(DIGITS[:90]).save(tmp_path / "model")
    rows = first.cluster_centers_
    np.testing.assert_array_equal(light.predict(ArraySource(rows)), np.arange(10))


@pytest.mark.parametrize(
    "lie",
    [
        lambda config, tensors: tensors.update(centers=torch.zeros(3, 5)),
        lambda config, tensors: tensors.pop("counts"),
        lambda config, tensors: config["options"].update(geometry="flat"),
        lambda config, tensors: config["learned"].update(n_features_in_="six"),
        lambda config, tensors: config.update(preparation={"columns": 3}),
    ],
)
def test_what_is_wrong_with_a_folder_says_the_model(tmp_path: Path, lie: Any) -> None:
    TELL(3, random_state=0).fit(SMALL[:50]).save(tmp_path / "model")
    saved = read_model(tmp_path / "model")
    lie(saved.config, saved.tensors)
    write_model(tmp_path / "model", saved.kind, saved.config, saved.tensors)
    found = []
    for opens in (load, open_labeller):
        with pytest.raises(ModelFileError) as error:
            opens(tmp_path / "model")
        found.append(str(error.value))
    assert found[0] == found[1]


def test_a_model_of_another_version_is_opened_as_ever(tmp_path: Path) -> None:
    TELL(3, random_state=0).fit(SMALL[:50]).save(tmp_path / "model")
    saved = read_model(tmp_path / "model")
    del saved.config["options"]["device"]
    write_model(tmp_path / "model", saved.kind, saved.config, saved.tensors)
    assert isinstance(open_labeller(tmp_path / "model"), TELL)


def test_other_models_are_opened_as_ever(tmp_path: Path) -> None:
    kmeans = KMeans(3, n_init=1, random_state=0).fit(DIGITS)
    as_model(kmeans).save(tmp_path / "model")
    assert isinstance(open_labeller(tmp_path / "model"), KMeansAdapter)
