"""Numbers are as precise as the data until they are centred and scaled, whatever brings them."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tell import TELL, DeepTELL
from tell.data.chunks import precision
from tell.data.sources import open_source
from tell.estimators.deep.inputs import InputScale
from tell.estimators.scaling import column_sums
from tell.exceptions import InputError

# float32 holds neither the first two nor one eighth of a second in 2024.
TELLING = np.array([[20240115.0, 0.1], [16777217.0, 0.2], [1705276800.125, 0.3]])
RANDOM = np.random.default_rng(0)
# Seconds since 1970 in four groups half an hour apart, beside a small number.
GROUPS = np.arange(400) % 4
EPOCH = np.column_stack(
    [1.7e9 + 1800 * GROUPS + RANDOM.normal(0, 60, 400), RANDOM.normal(size=400)]
)
NAMES = ["a", "b"]


def _csv(rows: np.ndarray, folder: Path) -> Path:
    pd.DataFrame(rows, columns=NAMES).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def _parquet(rows: np.ndarray, folder: Path) -> Path:
    pq.write_table(pa.table(dict(zip(NAMES, rows.T, strict=True))), folder / "rows.parquet")
    return folder / "rows.parquet"


def _ndjson(rows: np.ndarray, folder: Path) -> Path:
    lines = (json.dumps(dict(zip(NAMES, row, strict=True))) for row in rows.tolist())
    (folder / "rows.ndjson").write_text("\n".join(lines))
    return folder / "rows.ndjson"


def _npy(rows: np.ndarray, folder: Path) -> Path:
    np.save(folder / "rows.npy", rows)
    return folder / "rows.npy"


def _npz(rows: np.ndarray, folder: Path) -> Path:
    np.savez(folder / "rows.npz", X=rows)
    return folder / "rows.npz"


KINDS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "array": lambda rows, _: rows,
    "pandas": lambda rows, _: pd.DataFrame(rows, columns=NAMES),
    "polars": lambda rows, _: pl.DataFrame(rows, schema=NAMES),
    "arrow": lambda rows, _: pa.table(dict(zip(NAMES, rows.T, strict=True))),
    "generator": lambda rows, _: iter(np.array_split(rows, 3)),
    "csv": _csv,
    "parquet": _parquet,
    "ndjson": _ndjson,
    "npy": _npy,
    "npz": _npz,
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_digit_is_lost_on_the_way(kind: str, tmp_path: Path) -> None:
    rows = open_source(KINDS[kind](TELLING, tmp_path)).read().X
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, TELLING)


def test_sparse_rows_come_whole_and_in_chunks() -> None:
    matrix = sp.csr_array(TELLING)
    source = open_source(matrix, chunk_rows=2)
    assert source.in_memory
    assert source.matrix() is not None
    assert np.shares_memory(source.matrix().data, matrix.data)
    np.testing.assert_array_equal(np.concatenate([c.X for c in source.chunks()]), TELLING)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_in_memory_are_not_copied(dtype: type) -> None:
    rows = TELLING.astype(dtype)
    source = open_source(rows)
    assert source.in_memory
    assert source.matrix() is rows or np.shares_memory(source.matrix(), rows)
    assert source.dtype == dtype


def test_narrow_types_stay_narrow() -> None:
    for narrow in (np.bool_, np.uint8, np.int16, np.float16, np.float32):
        assert precision(narrow) == np.float32
        assert open_source(pd.DataFrame({"a": np.ones(3, narrow)})).dtype == np.float32
        assert open_source(pa.table({"a": pa.array(np.ones(3, narrow))})).dtype == np.float32
    for wide in (np.int32, np.uint32, np.int64, np.float64, np.longdouble):
        assert precision(np.float32, wide) == np.float64
    assert open_source(pd.DataFrame({"a": pd.array([1, 2], "Int64")})).dtype == np.float64
    assert open_source(pa.table({"a": pa.array([1, 2], pa.decimal128(9, 2))})).dtype == np.float64


def test_files_of_one_folder_have_one_precision(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": np.ones(2, np.float32)}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": np.array([16777217, 1])}), tmp_path / "2.parquet")
    rows = open_source(tmp_path).read().X
    np.testing.assert_array_equal(rows[:, 0], [1, 1, 16777217, 1])


def test_batches_of_another_precision_are_refused() -> None:
    batches = iter([np.ones((2, 2), np.float32), TELLING])
    with pytest.raises(InputError, match="batch 1 must hold float32 like the first"):
        open_source(batches).read()


@pytest.mark.parametrize("options", [{"geometry": "euclidean"}, {"standardize": True}])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_gives_the_same_model(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Seconds since 1970, of which float32 would keep one in 128."""
    ours = TELL(4, random_state=0, **options).fit(KINDS[kind](EPOCH, tmp_path))
    theirs = TELL(4, random_state=0, **options).fit(EPOCH)
    np.testing.assert_array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert ours.loss_ == theirs.loss_
    np.testing.assert_array_equal(ours.cluster_losses_, theirs.cluster_losses_)
    if options.get("geometry") == "euclidean":
        assert len(set(zip(ours.labels_, GROUPS, strict=True))) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_gives_the_same_deep_model(kind: str, tmp_path: Path) -> None:
    ours = DeepTELL(2, epochs=1, n_init=1, random_state=0).fit(KINDS[kind](EPOCH, tmp_path))
    theirs = DeepTELL(2, epochs=1, n_init=1, random_state=0).fit(EPOCH)
    np.testing.assert_array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)


def test_bytes_of_a_file_are_images_like_those_of_an_array(tmp_path: Path) -> None:
    images = RANDOM.integers(0, 200, (40, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    np.savez(tmp_path / "images.npz", X=images)
    theirs = DeepTELL(2, epochs=1, n_init=1, random_state=0).fit(images)
    for name in ("images.npy", "images.npz"):
        ours = DeepTELL(2, epochs=1, n_init=1, random_state=0).fit(tmp_path / name)
        assert ours.input_shape_ == (8, 8)
        assert float(ours.scale_.scale) == 255
        np.testing.assert_array_equal(ours.cluster_centers_, theirs.cluster_centers_)
        np.testing.assert_array_equal(ours.predict(tmp_path / name), theirs.labels_)


def test_a_stream_in_float32_is_rounded_after_it_is_centred() -> None:
    rows = EPOCH - [1.7e9, 0]
    model = TELL(4, geometry="euclidean", random_state=0).fit(rows.astype(np.float32))
    model._scaling = type(model._scaling)(np.add(model._scaling.offset, [1.7e9, 0]))
    twin = TELL(4, geometry="euclidean", random_state=0).fit(rows.astype(np.float32))
    model.partial_fit(EPOCH)
    twin.partial_fit(rows)
    np.testing.assert_allclose(
        model.centers_in_units() - [1.7e9, 0], twin.centers_in_units(), atol=1e-3
    )


# --- sums and scales without copies ------------------------------------------------------------


@given(st.integers(1, 3000), st.integers(1, 9), st.integers(1, 5000), st.booleans())
def test_sums_of_blocks_are_those_of_numpy(n: int, d: int, block: int, double: bool) -> None:
    rows = np.random.default_rng(n * d).normal(37, 100, (n, d))
    rows = rows if double else rows.astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tell.estimators.scaling.BLOCK_NUMBERS", block)
        ours = column_sums(rows)
        by_columns = column_sums(np.asfortranarray(rows))
    np.testing.assert_array_equal(ours, rows.sum(axis=0, dtype=np.float64))
    np.testing.assert_array_equal(ours, by_columns)


def test_images_are_scaled_without_a_copy_in_double() -> None:
    images = RANDOM.integers(0, 256, (2000, 3, 32, 32), dtype=np.uint8)
    scale = InputScale.unit_interval(images)
    expected = (images[:5] / 255.0).astype(np.float32)
    tracemalloc.start()
    x = scale.apply(images)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 << 20  # the bytes are 6 MB, in double they would be 49 MB
    np.testing.assert_array_equal(x[:5].numpy(), expected)


# --- wide tables -------------------------------------------------------------------------------


def test_a_wide_table_opens_in_linear_time(tmp_path: Path) -> None:
    """40,000 columns took 13 seconds when every name was looked for in a list of all."""
    names = [f"c{number}" for number in range(40_000)]
    line = ",".join(map(str, range(40_000)))
    (tmp_path / "wide.csv").write_text(f"{','.join(names)}\n{line}\n{line}\n")
    frame = pd.DataFrame([np.arange(40_000.0)], columns=names)
    started = time.process_time()
    source = open_source(tmp_path / "wide.csv", label="c7", drop=names[:100:9])
    assert source.n_features == 40_000 - 13
    assert open_source(frame, columns=names[::-1]).n_features == 40_000
    assert open_source(np.ones((1, 40_000)), drop=["3"]).n_features == 39_999
    assert time.process_time() - started < 2
    (tmp_path / "twice.csv").write_text(f"{','.join([*names, 'c5'])}\n")
    with pytest.raises(InputError, match="'c5' stands twice"):
        open_source(tmp_path / "twice.csv")
