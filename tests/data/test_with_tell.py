"""TELL gets the same from every source as from the array, and needs little memory for a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tell import TELL
from tell.data.shuffling import shuffled
from tell.data.sources import open_source
from tell.data.synthetic import make_stream
from tell.exceptions import InputError

STREAM = make_stream("steady", rows=20_000, n_features=8, n_clusters=8, noise=0.2, seed=3)
X = STREAM.X
SORTED = X[np.argsort(STREAM.y, kind="stable")]


def table(rows: np.ndarray) -> pa.Table:
    return pa.table({f"x{number}": column for number, column in enumerate(rows.T)})


def _parquet(folder: Path) -> Path:
    pq.write_table(table(X), folder / "rows.parquet", row_group_size=3000)
    return folder / "rows.parquet"


def _csv(folder: Path) -> Path:
    np.savetxt(folder / "rows.csv", X, delimiter=",", fmt="%.17g")
    return folder / "rows.csv"


def _npy(folder: Path) -> Path:
    np.save(folder / "rows.npy", X)
    return folder / "rows.npy"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "parquet": _parquet,
    "csv": _csv,
    "npy": _npy,
    "arrow": lambda _: table(X),
    "generator": lambda _: (X[at : at + 999] for at in range(0, len(X), 999)),
    "loader": lambda _: DataLoader(TensorDataset(torch.from_numpy(X)), batch_size=500),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_fit_and_predict_equal_those_in_memory(kind: str, tmp_path: Path) -> None:
    # A CSV file says nothing of its numbers' precision: they are read as double.
    expected = TELL(8, random_state=0).fit(X.astype(np.float64) if kind == "csv" else X)
    model = TELL(8, random_state=0).fit(SOURCES[kind](tmp_path))
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(model.predict(SOURCES[kind](tmp_path)), expected.labels_)


@pytest.mark.parametrize("kind", SOURCES)
def test_partial_fit_learns_every_row_once(kind: str, tmp_path: Path) -> None:
    model = TELL(8, random_state=0).fit(X[:1000])
    model.partial_fit(SOURCES[kind](tmp_path))
    assert model.n_seen_ == 1000 + len(X)
    assert -model.score(X) < 1.05 * TELL(8, random_state=0).fit(X).loss_


@pytest.mark.parametrize("kind", sorted(SOURCES))
def test_a_file_larger_than_memory_fits_as_well(kind: str, tmp_path: Path) -> None:
    expected = TELL(8, random_state=0).fit(X)
    model = TELL(8, memory="1MiB", random_state=0)
    if kind == "generator":
        with pytest.raises(InputError, match="once"):
            model.fit(SOURCES[kind](tmp_path))
        return
    model.fit(SOURCES[kind](tmp_path))
    sampled = [step for step in model.history_ if "bound" not in step]
    assert sampled
    assert all(step["rows"] < len(X) for step in sampled)
    # Every row is read again for its label, and tells what a step on all rows would still bring.
    passed = [step for step in model.history_ if "bound" in step]
    assert all(step["rows"] == len(X) for step in passed)
    assert passed[-1]["bound"] <= 10 * model.tol
    assert len(model.labels_) == len(X)
    assert model.loss_ < 1.01 * expected.loss_


def test_a_file_sorted_by_class_is_no_worse(tmp_path: Path) -> None:
    pq.write_table(table(SORTED), tmp_path / "sorted.parquet", row_group_size=500)
    source = open_source(tmp_path / "sorted.parquet")
    best = TELL(8, random_state=0).fit(X).loss_
    assert TELL(8, memory="1MiB", random_state=0).fit(source).loss_ < 1.01 * best
    online = TELL(8, random_state=0, n_init=10)
    for batch in shuffled(source, batch_rows=256, buffer_rows=4000, seed=0):
        online.partial_fit(batch.X)
    assert -online.score(X) < 1.01 * best


READ = """
import sys
import pyarrow.parquet
from tell.data.sources import open_source
from tell.data.shuffling import shuffled

def peak():  # not ru_maxrss, which a process inherits from the one that started it
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10

source = open_source(sys.argv[1], chunk_rows=8192)
next(source.chunks())
before = peak()
rows = sum(len(chunk) for chunk in source.chunks())
rows += sum(len(batch) for batch in shuffled(source, batch_rows=4096, buffer_rows=16384))
print(rows, peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("row_group", [1 << 20, 1 << 15])
def test_memory_stays_far_below_the_size_of_the_file(row_group: int, tmp_path: Path) -> None:
    """128 MB are read, whole and shuffled, with a growth of at most 80 MB."""
    rows = np.random.default_rng(0).standard_normal((1_000_000, 32), dtype=np.float32)
    path = tmp_path / "rows.parquet"
    pq.write_table(table(rows), path, row_group_size=row_group, use_dictionary=False)
    command = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    read, growth = map(int, done.stdout.split())
    assert read == 2 * len(rows)
    assert growth < 80
