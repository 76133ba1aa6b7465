"""The same rows must come out of every kind of source, and bad rows must be named."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_digits

from tell.data.sources import Chunk, is_array_like, open_source
from tell.exceptions import DataUnavailableError, InputError, ParameterError

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)
NAMES = [f"p{i}" for i in range(64)]
FRAME = pd.DataFrame(X, columns=NAMES).assign(digit=Y)


def _csv(folder: Path) -> Path:
    FRAME.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def _csv_gz(folder: Path) -> Path:
    path = folder / "rows.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write(FRAME.to_csv(index=False))
    return path


def _parquet(folder: Path) -> Path:
    pq.write_table(_table(folder), folder / "rows.parquet", row_group_size=500)
    return folder / "rows.parquet"


def _parquet_folder(folder: Path) -> Path:
    (folder / "parts").mkdir()
    backwards = FRAME[FRAME.columns[::-1]]
    pq.write_table(pa.Table.from_pandas(FRAME[:1000]), folder / "parts" / "a.parquet")
    pq.write_table(pa.Table.from_pandas(backwards[1000:]), folder / "parts" / "b.parquet")
    return folder / "parts"


def _glob(folder: Path) -> str:
    return str(_parquet_folder(folder) / "*.parquet")


def _table(_: Path) -> pa.Table:
    return pa.Table.from_pandas(FRAME, preserve_index=False)


TABLES: dict[str, Any] = {
    "csv": _csv,
    "csv.gz": _csv_gz,
    "parquet": _parquet,
    "folder": _parquet_folder,
    "glob": _glob,
    "arrow": _table,
    "arrow stream": lambda folder: _table(folder).to_reader(max_chunksize=900),
    "pandas": lambda _: FRAME,
    "polars": lambda _: pl.from_pandas(FRAME),
}


def expected(kind: str) -> np.ndarray:
    """The rows as precise as this kind of table is: text states no precision."""
    return X.astype(np.float64) if kind in ("csv", "csv.gz") else X


def assert_chunks(chunks: list[Chunk], expected: np.ndarray, most: int) -> None:
    start = 0
    for chunk in chunks:
        assert chunk.start == start
        assert chunk.X.dtype == expected.dtype
        assert chunk.X.flags.c_contiguous
        assert 0 < len(chunk) <= most
        start += len(chunk)
    np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), expected)


@pytest.mark.parametrize("kind", TABLES)
def test_every_table_gives_the_same_rows(kind: str, tmp_path: Path) -> None:
    source = open_source(TABLES[kind](tmp_path), label="digit", chunk_rows=300)
    assert source.feature_names == NAMES
    assert source.shape == (64,)
    chunks = list(source.chunks())
    assert_chunks(chunks, expected(kind), 300)
    np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in chunks]), Y)
    assert source.n_rows in (None, 1797)


@pytest.mark.parametrize("kind", TABLES)
def test_columns_come_in_the_order_asked_for(kind: str, tmp_path: Path) -> None:
    chunk = open_source(TABLES[kind](tmp_path), columns=["p20", "p3"]).read(max_rows=1200)
    np.testing.assert_array_equal(chunk.X, X[:1200, [20, 3]])
    assert chunk.y is None


@pytest.mark.parametrize("kind", TABLES)
def test_an_unknown_column_is_named(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'colour'; it has 'p0'"):
        open_source(TABLES[kind](tmp_path), label="colour")


@pytest.mark.parametrize("kind", sorted(set(TABLES) - {"arrow stream"}))
def test_blocks_in_any_order_hold_every_row_once(kind: str, tmp_path: Path) -> None:
    source = open_source(TABLES[kind](tmp_path), drop=["digit"], chunk_rows=256)
    chunks = [chunk for block in reversed(source.blocks()) for chunk in block()]
    assert_chunks(sorted(chunks, key=lambda chunk: chunk.start), expected(kind), 256)
    first = [chunk.X for chunk in source.chunks()]
    again = [chunk.X for chunk in source.chunks()]
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))


def test_array_files_are_read_in_chunks(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    np.savez_compressed(tmp_path / "both.npz", X=X, y=Y)
    np.savez(tmp_path / "one.npz", X.reshape(-1, 8, 8))
    np.savez(tmp_path / "columns.npz", X=np.asfortranarray(X), y=Y)  # as of a pandas frame
    by_columns = open_source(tmp_path / "columns.npz", chunk_rows=100)
    np.testing.assert_array_equal(by_columns.read().X, X.astype(np.float32))
    np.testing.assert_array_equal(by_columns.read().y, Y)
    np.savez(tmp_path / "images.npz", np.asfortranarray(X.reshape(-1, 8, 8)))
    np.testing.assert_array_equal(
        open_source(tmp_path / "images.npz").read().X, X.astype(np.float32)
    )
    assert_chunks(list(open_source(tmp_path / "rows.npy", chunk_rows=500).chunks()), X, 500)
    both = open_source(tmp_path / "both.npz", chunk_rows=500)
    assert_chunks(list(both.chunks()), X, 500)
    np.testing.assert_array_equal(both.read().y, Y)
    images = open_source(tmp_path / "one.npz")
    assert images.shape == (1, 8, 8)
    np.testing.assert_array_equal(images.read().X, X)


def test_a_stream_is_read_once() -> None:
    source = open_source(_table(Path()).to_reader())
    assert source.rereadable is False
    source.read()
    with pytest.raises(InputError, match="read only once"):
        source.chunks()


def test_digits_are_embedded_and_scaled() -> None:
    chunk = open_source("digits").read()
    np.testing.assert_array_equal(chunk.X, X / 16)
    np.testing.assert_array_equal(chunk.y, Y)


@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int16, np.uint8, np.bool_]),
        hnp.array_shapes(min_dims=2, max_dims=4, max_side=9),
        elements={"allow_nan": False, "allow_infinity": False, "min_value": 0, "max_value": 1},
    ),
    st.integers(1, 10),
)
@settings(max_examples=60, deadline=None)
def test_arrays_of_any_shape_and_type(array: np.ndarray, chunk_rows: int) -> None:
    source = open_source(array, chunk_rows=chunk_rows)
    chunks = list(source.chunks())
    kept = np.float64 if array.dtype == np.float64 else np.float32
    assert_chunks(chunks, array.reshape(len(array), -1).astype(kept), chunk_rows)
    assert source.n_features == chunks[0].X.shape[1]


@given(st.integers(0, 1796), st.integers(0, 63), st.sampled_from([np.nan, np.inf, -np.inf]))
@settings(max_examples=20, deadline=None)
def test_a_value_that_is_not_finite_is_located(row: int, column: int, value: float) -> None:
    spoiled = X.copy()
    spoiled[row, column] = value
    with pytest.raises(InputError, match=f"row {row}, column {column} "):
        open_source(spoiled, chunk_rows=500).read()
    with pytest.raises(InputError, match=f"row {row}, column 'p{column}' "):
        open_source(pd.DataFrame(spoiled, columns=NAMES), chunk_rows=500).read()


def test_values_beyond_float64_are_located_and_sums_beyond_float32_are_fine() -> None:
    with pytest.raises(InputError, match=r"row 1, column 0 .* too large for float64"):
        open_source(np.array([["1"], ["1e400"]]).astype(np.longdouble)).read()
    assert open_source(np.array([[1.0], [1e300]])).read().X[1, 0] == 1e300
    large = np.full((10, 2), 3e38, dtype=np.float32)
    np.testing.assert_array_equal(open_source(large).read().X, large)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,x\n", r"row 1 .* holds 'x' in column 'b'.*drop=\['b'\]"),
        ("a,b\n1,2\n3\n", "row 1 .* has 1 fields where 2 were expected"),
        ("a,b\n1,2\n3,\n", r"row 1, column 'b' .* is missing"),
        ("a,b\n", "at least one row"),
        ("", "at least one row"),
        ("a,a\n1,2\n", "'a' stands twice"),
        ("\xe4", "no rows|at least one row|UTF-8"),
    ],
)
def test_bad_csv_files_name_file_row_and_column(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=message) as caught:
        open_source(path).read()
    assert "bad.csv" in str(caught.value)


def test_csv_dialects_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n1;2.5\n3;4\n")
    assert open_source(path).feature_names == ["a", "b"]
    path.write_text("1\t2\n3\t4\n")
    source = open_source(path, label="0")
    assert source.feature_names is None
    np.testing.assert_array_equal(source.read().X, [[2], [4]])
    np.testing.assert_array_equal(source.read().y, [1, 3])
    path.write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n")
    assert open_source(path).feature_names == ["a", "b"]
    assert open_source(path).read().X.shape == (1, 2)


def test_files_of_one_folder_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,z\n1,2\n")
    with pytest.raises(InputError, match=r"b\.csv: all files of .* \['x', 'z'\]"):
        open_source(tmp_path)
    np.testing.assert_array_equal(open_source(tmp_path, columns=["y"]).read().X, [[2], [1]])
    (tmp_path / "b.csv").write_text("y,x\n1,oops\n")
    with pytest.raises(InputError, match=r"b\.csv: row 0 .* holds 'oops' in column 'x'"):
        open_source(tmp_path).read()


def test_text_columns_are_refused_by_name() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "kind": ["x", "y"]})
    with pytest.raises(InputError, match=r"column 'kind' holds .*'x'.*label='kind'"):
        open_source(frame).read()
    np.testing.assert_array_equal(open_source(frame, label="kind").read().y, ["x", "y"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.zeros(3), "reshape"),
        (np.zeros((0, 3)), "at least one row"),
        (np.zeros((3, 0)), "at least one column"),
        (np.array([["a"]]), "real numbers"),
        (np.array([[1j]]), "real numbers"),
        ([[1.0], [2.0, 3.0]], "equal lengths"),
        (object(), "got object"),
    ],
)
def test_what_cannot_be_rows_is_refused(data: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_source(data)


def test_damaged_and_absent_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match=r"gone\.csv"):
        open_source(tmp_path / "gone.csv")
    for name in ("bad.npy", "bad.npz", "bad.parquet"):
        (tmp_path / name).write_bytes(b"nonsense" * 10)
        with pytest.raises(InputError, match=name.replace(".", r"\.")):
            open_source(tmp_path / name)
    np.savez(tmp_path / "cut.npz", X)
    whole = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole.replace(X[900].tobytes(), X[901].tobytes(), 1))
    with pytest.raises(InputError, match="damaged"):
        open_source(tmp_path / "cut.npz").read()
    pickled = np.array([[{}]], dtype=object)
    np.save(tmp_path / "pickled.npy", pickled, allow_pickle=True)
    with pytest.raises(InputError, match="not a readable"):
        open_source(tmp_path / "pickled.npy")
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(InputError, match="file type"):
        open_source(tmp_path / "model.bin")


def test_options_are_checked() -> None:
    with pytest.raises(ParameterError, match="chunk_rows"):
        open_source(X, chunk_rows=0)
    with pytest.raises(ParameterError, match="list of column names"):
        open_source(X, columns="p1")
    with pytest.raises(ParameterError, match="max_rows"):
        open_source(X).read(max_rows=0)
    with pytest.raises(InputError, match="no column is left"):
        open_source(X[:, :1], drop=[0])


def test_what_scikit_learn_takes_whole(tmp_path: Path) -> None:
    np.save(tmp_path / "small.npy", X)
    assert is_array_like(FRAME)
    assert is_array_like(sp.csr_array(X))
    assert is_array_like(pl.from_pandas(FRAME))
    mapped = np.load(tmp_path / "small.npy", mmap_mode="r")
    for data in ("digits", tmp_path, _table(tmp_path), open_source(X), iter([X]), mapped):
        assert not is_array_like(data)
