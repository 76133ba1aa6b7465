"""TELL on files and iterators: the same answers as on arrays, in bounded memory."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits, make_blobs

from tell import TELL
from tell.data.sources import open_source
from tell.estimators.sampling import read_sample
from tell.exceptions import DataUnavailableError, InputError

X = load_digits().data.astype(np.float32)
NAMES = [f"pixel {i}" for i in range(64)]
GEOMETRIES = ["sphere", "euclidean"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    frame = pd.DataFrame(X, columns=NAMES)
    np.save(folder / "rows.npy", X)
    np.savez(folder / "rows.npz", X=X)
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet", row_group_size=500)
    return {kind: folder / f"rows.{kind}" for kind in ("npy", "npz", "csv", "parquet")}


def model(**options: Any) -> TELL:
    return TELL(10, n_init=1, random_state=0, **options)


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_file_gives_what_its_array_gives(
    kind: str, geometry: str, files: dict[str, Path]
) -> None:
    path = files[kind]
    rows = X.astype(np.float64) if kind == "csv" else X  # a CSV states no precision
    ours, theirs = model(geometry=geometry).fit(path), model(geometry=geometry).fit(rows)
    assert np.array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    assert np.array_equal(ours.labels_, theirs.labels_)
    assert ours.loss_ == theirs.loss_
    assert np.array_equal(theirs.predict(str(path)), theirs.labels_)
    assert theirs.score(path) == pytest.approx(theirs.score(rows))
    named = kind in ("csv", "parquet")
    assert getattr(ours, "feature_names_in_", np.array([])).tolist() == (NAMES if named else [])


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
def test_a_file_streams_as_its_chunks(kind: str, files: dict[str, Path]) -> None:
    rows = X.astype(np.float64) if kind == "csv" else X
    ours, theirs = model(), model()
    ours.partial_fit(open_source(files[kind], chunk_rows=300))
    for start in range(0, len(X), 300):
        theirs.partial_fit(rows[start : start + 300])
    assert np.array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    assert ours.stream_ == theirs.stream_
    assert ours.n_seen_ == len(X)
    centers = ours.cluster_centers_
    ours.partial_fit(files[kind])
    assert not np.array_equal(ours.cluster_centers_, centers)


def test_a_double_model_learns_from_a_file(files: dict[str, Path]) -> None:
    ours = model().fit(X.astype(np.float64)).partial_fit(files["csv"])
    assert ours.cluster_centers_.dtype == np.float64
    assert ours.n_seen_ == 2 * len(X)


def test_tables_and_iterators() -> None:
    fitted = model().fit(X)
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    assert np.array_equal(model().fit(table).labels_, fitted.labels_)
    assert np.array_equal(fitted.predict(iter([X[:1000], X[1000:]])), fitted.labels_)
    from_generator = model().fit(part for part in np.array_split(X, 7))
    assert np.array_equal(from_generator.labels_, fitted.labels_)
    assert np.array_equal(model().fit("digits").predict("digits"), model().fit("digits").labels_)


# --- more rows than memory allows --------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """Twenty thousand rows in the order of their groups: a prefix would see only the first."""
    rows, y = make_blobs(20_000, 6, centers=8, cluster_std=2.0, random_state=1)
    rows = (rows[np.argsort(y)] + 20).astype(np.float32)
    path = tmp_path_factory.mktemp("large") / "rows.npy"
    np.save(path, rows)
    return path, rows


@pytest.mark.parametrize(
    "options",
    [{}, {"geometry": "euclidean"}, {"geometry": "euclidean", "standardize": True}],
)
def test_a_sample_of_a_large_file_is_enough(
    options: dict[str, Any], large: tuple[Path, np.ndarray]
) -> None:
    path, rows = large
    ours = TELL(8, memory="1MiB", random_state=0, **options).fit(open_source(path, chunk_rows=700))
    *sampled, last = ours.history_
    assert max(entry["rows"] for entry in sampled) < 20_000 == last["rows"]
    assert last["bound"] <= 1e-3  # a step on all rows would take off no more
    theirs = TELL(8, random_state=0, **options).fit(rows)
    assert ours.labels_.shape == (20_000,)
    assert np.array_equal(ours.labels_, ours.predict(rows))
    assert ours.loss_ == pytest.approx(-ours.score(rows), rel=1e-4)
    assert ours.loss_ <= 1.01 * theirs.loss_
    assert ours.n_seen_ == 20_000
    assert ours.cluster_sizes_.sum() == pytest.approx(20_000)
    np.testing.assert_allclose(
        np.sort(ours.cluster_sizes_), np.sort(np.bincount(ours.labels_)), rtol=0.15
    )
    if options.get("standardize"):
        np.testing.assert_allclose(ours.mean_, rows.mean(axis=0, dtype=float), rtol=1e-6)
        np.testing.assert_allclose(ours.scale_, rows.std(axis=0, dtype=float), rtol=1e-5)


def test_every_row_has_the_same_chance(large: tuple[Path, np.ndarray]) -> None:
    path, rows = large
    chosen = np.zeros(20_000)
    place = {row.tobytes(): i for i, row in enumerate(rows)}
    for seed in range(20):
        source = open_source(path, chunk_rows=900)
        sample = read_sample(source, 2000, seed)
        assert (len(sample.X), sample.n_rows, sample.complete) == (2000, 20_000, False)
        chosen[[place[row.tobytes()] for row in sample.X]] += 1
    per_tenth = chosen.reshape(10, -1).sum(axis=1)
    assert chosen.sum() == 40_000
    np.testing.assert_allclose(per_tenth, 4000, atol=5 * 60)  # five standard deviations


def test_rows_that_come_once_and_do_not_fit_are_refused(large: tuple[Path, np.ndarray]) -> None:
    parts = np.array_split(np.random.default_rng(0).permutation(large[1]), 20)
    ours = TELL(8, memory="1MiB", random_state=0)
    with pytest.raises(InputError, match="partial_fit"):
        ours.fit(part for part in parts)
    assert not hasattr(ours, "n_features_in_")
    ours.partial_fit(part for part in parts)
    assert ours.n_seen_ == 20_000


# --- wrong files -------------------------------------------------------------------------------


def test_files_that_do_not_fit_the_model(files: dict[str, Path], tmp_path: Path) -> None:
    fitted = model().fit(files["csv"])
    frame = pd.DataFrame(X, columns=NAMES)
    frame[NAMES[::-1]].to_csv(tmp_path / "order.csv", index=False)
    frame[NAMES[:9]].to_csv(tmp_path / "few.csv", index=False)
    for name, reason in (("order.csv", "order"), ("few.csv", "64 columns")):
        for call in (fitted.predict, fitted.score, fitted.partial_fit):
            with pytest.raises(InputError, match=reason):
                call(tmp_path / name)
    with pytest.raises(DataUnavailableError, match="missing"):
        fitted.predict("missing.csv")


def test_rows_of_a_file_can_have_weights(files: dict[str, Path]) -> None:
    weight = np.arange(len(X)) % 3
    ours, theirs = model(), model()
    for data, fitted in ((files["npy"], ours), (X, theirs)):
        fitted.fit(data, sample_weight=weight).partial_fit(data, sample_weight=weight[::-1])
    assert np.array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    assert ours.score(files["npy"], sample_weight=weight) == theirs.score(X, sample_weight=weight)
    with pytest.raises(InputError, match="sample_weight"):
        ours.fit(files["npy"], sample_weight=weight[1:])


def test_weights_need_all_rows_in_memory(large: tuple[Path, np.ndarray]) -> None:
    fitted = TELL(8, memory="1MiB", random_state=0).fit(large[0])
    for call in (fitted.fit, fitted.partial_fit, fitted.score):
        with pytest.raises(InputError, match="sample_weight needs all rows in memory"):
            call(large[0], sample_weight=np.ones(20_000))


def test_a_stream_that_breaks_leaves_the_model_as_it_was() -> None:
    fitted = model().fit(X[:500])
    before = copy.deepcopy(fitted)

    def broken() -> Any:
        yield X[500:600]
        yield X[600:700]
        raise OSError("the line went dead")

    with pytest.raises(OSError, match="dead"):
        fitted.partial_fit(broken())
    assert np.array_equal(fitted.cluster_centers_, before.cluster_centers_)
    assert (fitted.n_seen_, fitted.stream_) == (500, [])


def test_an_empty_source(tmp_path: Path) -> None:
    np.save(tmp_path / "empty.npy", np.empty((0, 64), np.float32))
    for call in (model().fit, model().fit(X).predict):
        with pytest.raises(InputError, match="row"):
            call(tmp_path / "empty.npy")
