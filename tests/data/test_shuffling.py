"""Shuffled reading: every row once, the same order for the same seed, and no bias that matters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import MiniBatchKMeans

from tell.data.csv_files import line_spans
from tell.data.shuffling import shuffled
from tell.data.sources import open_source
from tell.data.synthetic import make_stream
from tell.exceptions import ParameterError

STREAM = make_stream("steady", rows=40_000, n_features=8, n_clusters=8, noise=0.2, seed=3)
SORTED = STREAM.X[np.argsort(STREAM.y, kind="stable")]


@pytest.fixture(scope="module", params=["parquet", "csv"])
def sorted_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sorted")
    table = pa.table({f"x{i}": SORTED[:, i] for i in range(8)})
    if request.param == "parquet":
        pq.write_table(table, folder / "rows.parquet", row_group_size=400)
        return folder / "rows.parquet"
    table.to_pandas().to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def multiset(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T)]


@given(
    st.integers(1, 300),
    st.integers(1, 100),
    st.integers(1, 400),
    st.integers(1, 70),
    st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_every_row_comes_once_in_an_order_fixed_by_the_seed(
    rows: int, batch_rows: int, buffer_rows: int, chunk_rows: int, seed: int
) -> None:
    X = np.arange(rows, dtype=np.float32)[:, None]
    source = open_source(X, chunk_rows=chunk_rows)

    def read(epoch: int) -> np.ndarray:
        batches = list(
            shuffled(source, batch_rows=batch_rows, buffer_rows=buffer_rows, seed=seed, epoch=epoch)
        )
        assert all(len(batch) == batch_rows for batch in batches[:-1])
        assert [batch.start for batch in batches] == list(range(0, rows, batch_rows))
        return np.concatenate([batch.X for batch in batches])

    first = read(0)
    np.testing.assert_array_equal(multiset(first), X)
    np.testing.assert_array_equal(read(0), first)
    if rows > 50 and buffer_rows > 20:  # fewer can fall into the same order by chance
        assert (read(1) != first).any()
        assert (first != X).any()


def test_labels_travel_with_their_rows() -> None:
    source = open_source(iter([(STREAM.X[:500], STREAM.y[:500])]))
    batch = next(shuffled(source, batch_rows=500))
    where = {row.tobytes(): label for row, label in zip(STREAM.X[:500], STREAM.y, strict=False)}
    assert batch.y is not None
    assert [where[row.tobytes()] for row in batch.X] == list(batch.y)


def test_a_sorted_file_clusters_as_well_as_a_shuffled_one(
    sorted_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffer holds a tenth of the file, in which each cluster is an eighth."""
    monkeypatch.setattr("tell.data.csv_files._SPAN_BYTES", 1 << 16)

    def loss(batches: list[np.ndarray]) -> float:
        # Without the random reassignment, which is a bias of its own.
        model = MiniBatchKMeans(8, init=SORTED[2500::5000], n_init=1, reassignment_ratio=0)
        for batch in batches:
            model.partial_fit(batch)
        return float((model.transform(SORTED).min(axis=1) ** 2).mean())

    source = open_source(sorted_file, chunk_rows=500)
    batches = shuffled(source, batch_rows=200, buffer_rows=4000, seed=1)
    read = [batch.X.astype(np.float32) for batch in batches]  # a CSV is read as double
    np.testing.assert_array_equal(multiset(np.concatenate(read)), multiset(SORTED))
    ideal = np.random.default_rng(0).permutation(SORTED)
    assert loss(read) <= 1.01 * loss(list(ideal.reshape(-1, 200, 8)))
    # Rows from one place only would show one cluster in each batch.
    nearest = ((read[5][:, None] - SORTED[2500::5000]) ** 2).sum(-1).argmin(1)
    assert len(np.unique(nearest)) >= 3


@given(
    st.lists(st.text('ab"\n,1', max_size=12), max_size=30),
    st.integers(1, 40),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_spans_cut_csv_between_rows_only(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str], size: int, header: bool
) -> None:
    import csv

    path = tmp_path_factory.mktemp("spans") / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([c] for c in cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tell.data.csv_files._SPAN_BYTES", size)
        spans = list(line_spans(path, has_header=False))
    raw = path.read_bytes()
    assert b"".join(raw[begin:end] for begin, end, _ in spans) == raw
    rows = [
        row[0]
        for begin, end, _ in spans
        for row in csv.reader(raw[begin:end].decode().splitlines(keepends=True))
    ]
    assert rows == cells


def test_options_are_checked() -> None:
    with pytest.raises(ParameterError, match="batch_rows"):
        next(shuffled(open_source("digits"), batch_rows=0))
