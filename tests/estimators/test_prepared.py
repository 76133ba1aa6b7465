"""A preparation lives inside the model: frames, files and shells give the same labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tell import TELL, DeepTELL, TablePreparation, explain, load
from tell.data.sources import open_source
from tell.exceptions import InputError, ParameterError

CUSTOMERS = Path(__file__).parents[2] / "docs" / "tutorials" / "data" / "customers.csv"


def table(n: int = 240) -> pd.DataFrame:
    random = np.random.default_rng(3)
    kind = random.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "age": np.array([20, 45, 70])[kind] + random.integers(-5, 6, n),
            "income": np.exp(np.array([8.0, 10.0, 9.0])[kind] + random.normal(0, 0.3, n)),
            "plan": np.array(["free", "pro", "basic"])[kind],
            "member": random.random(n) < 0.5,
        }
    )
    frame.loc[::17, "income"] = np.nan
    frame.loc[::23, "plan"] = None
    return frame


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_a_mixed_frame_is_taken_as_it_is(geometry: Any, tmp_path: Path) -> None:
    frame = table()
    model = TELL(3, geometry=geometry, random_state=0).fit(frame)
    assert model.preparation_.feature_names == model.feature_names_in_.tolist()
    model.save(tmp_path / "model")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    again = load(tmp_path / "model")
    shuffled = frame[frame.columns[::-1]].assign(extra="x")
    for rows in (frame, shuffled, tmp_path / "rows.csv", str(tmp_path / "rows.parquet")):
        assert np.array_equal(again.predict(rows), model.labels_)
        np.testing.assert_array_equal(again.transform(rows), model.transform(frame))
    from_file = TELL(3, geometry=geometry, random_state=0).fit(tmp_path / "rows.csv")
    np.testing.assert_array_equal(from_file.cluster_centers_, model.cluster_centers_)


def test_the_features_themselves_can_be_asked_about_too() -> None:
    frame = table()
    model = TELL(3, geometry="euclidean", random_state=0).fit(frame)
    features = model.preparation_.apply(open_source(frame)).read().X
    assert np.array_equal(model.predict(features), model.labels_)
    again = model.refit(features, random_state=0)
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)


def test_numbers_alone_are_left_as_they_were(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(0, 1, (90, 3)) * [1, 10, 100]
    frame = pd.DataFrame(X, columns=list("abc"))
    frame.to_csv(tmp_path / "x.csv", index=False)
    plain = TELL(3, random_state=0).fit(X)
    assert not hasattr(plain, "preparation_")
    for rows in (frame, tmp_path / "x.csv"):
        model = TELL(3, random_state=0).fit(rows)
        assert not hasattr(model, "preparation_")
        np.testing.assert_array_equal(model.cluster_centers_, plain.cluster_centers_)
    prepared = TELL(3, prepare=True, random_state=0).fit(frame)
    standard = TELL(3, standardize=True, random_state=0).fit(frame)
    assert np.array_equal(prepared.labels_, standard.labels_)


def test_a_second_fit_forgets_the_first_one() -> None:
    model = TELL(3, random_state=0).fit(table())
    model.fit(np.random.default_rng(0).normal(0, 1, (50, 2)))
    assert not hasattr(model, "preparation_")
    assert model.n_features_in_ == 2


def test_wishes_are_kept_with_the_model(tmp_path: Path) -> None:
    prepare = TablePreparation(types={"age": "category"}, scaling="standard")
    frame = table()
    frame["age"] = frame["age"] // 25
    model = TELL(3, prepare=prepare, random_state=0).fit(frame)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.prepare.get_params() == prepare.get_params()
    assert again.preparation_ == model.preparation_
    with pytest.raises(InputError, match="table with columns"):
        model.fit(np.zeros((5, 2)))
    with pytest.raises(ParameterError, match="prepare must be"):
        TELL(2, prepare="yes").fit(frame)


def test_a_deep_model_keeps_it_too(tmp_path: Path) -> None:
    frame = table()
    model = DeepTELL(3, epochs=1, random_state=0).fit(frame)
    model.save(tmp_path / "model")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert np.array_equal(load(tmp_path / "model").predict(tmp_path / "rows.csv"), model.labels_)


def test_a_stream_goes_on_with_tables() -> None:
    frame = table()
    model = TELL(3, geometry="euclidean", random_state=0).fit(frame)
    model.partial_fit(frame[:100])
    assert model.n_seen_ == 340


def test_the_loss_after_a_stream_is_a_running_mean() -> None:
    random = np.random.default_rng(0)
    model = TELL(2, geometry="euclidean", random_state=0).fit(random.normal(0, 1, (2000, 2)))
    model.partial_fit(random.normal(0, 1, (1000, 2)))
    usual = model.loss_
    model.partial_fit(random.normal(0, 1, (5, 2)) * 3)
    assert model.stream_[-1]["loss"] > 2 * usual
    assert model.loss_ == model.stream_[-1]["running_loss"]
    assert model.loss_ < 1.5 * usual


def test_one_absurd_cell_is_named_and_huge_units_are_no_matter() -> None:
    X = np.random.default_rng(0).normal(0, 1, (200, 3))
    wrong = X.copy()
    wrong[7, 1] = 1e30
    with pytest.raises(InputError, match=r"1e\+30 in row 7, column 1"):
        TELL(3, standardize=True, random_state=0).fit(wrong)
    plain = TELL(3, standardize=True, geometry="euclidean", random_state=0).fit(X)
    huge = TELL(3, standardize=True, geometry="euclidean", random_state=0).fit(X * 2.0**990)
    assert np.array_equal(huge.labels_, plain.labels_)
    assert huge.loss_ == pytest.approx(plain.loss_)


def test_tables_are_explained_as_they_are() -> None:
    frame = table()
    model = TELL(3, geometry="euclidean", random_state=0).fit(frame)
    found = explain(model, frame)
    assert sum(cluster.size for cluster in found.clusters) == len(frame)


def test_what_the_tutorial_shows_is_what_pandas_says() -> None:
    frame = pd.read_csv(CUSTOMERS).drop(columns="status")
    lines = {line["column"]: line for line in TablePreparation().fit(frame).decisions_}
    for name, column in frame.items():
        assert lines[name]["missing"] == pytest.approx(column.isna().mean())
        if column.dtype.kind in "if":
            assert lines[name]["fill"] == column.median()
        elif name != "records":
            assert lines[name]["fill"] == column.mode()[0]
    assert lines["records"]["note"] == f"yes in {(frame['records'] == 'yes').mean():.0%}"
    skewed = {name for name, line in lines.items() if line["treatment"] == "log"}
    assert skewed == {"income", "price"}
    assert frame["income"].skew() > 2 > 8 * abs(np.log1p(frame["income"]).skew())


def test_a_frame_in_gives_a_frame_out(tmp_path: Path) -> None:
    import polars as pl

    frame = table().rename(index="c{}".format)
    model = TELL(3, random_state=0).fit(frame)
    model.name_clusters({0: "Some"})
    model.save(tmp_path / "model")
    found = load(tmp_path / "model").label(frame)
    assert found.index.equals(frame.index)
    assert found[frame.columns].equals(frame)
    assert (found["cluster"] == model.predict(frame)).all()
    assert ((found["cluster_name"] == "Some") == (found["cluster"] == 0)).all()
    assert model.label(pl.from_pandas(frame))["cluster"].to_list() == found["cluster"].tolist()
    with pytest.raises(InputError, match="needs a frame"):
        model.label(np.zeros((3, 2)))
