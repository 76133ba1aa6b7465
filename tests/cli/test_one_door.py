"""The command goes the way of Python: the same models, within the same memory, read once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_wine

from tell import TELL, DeepTELL, load
from tell.data import prepared_tables, sources
from tell.runtime.model_rows import open_like

from .conftest import Run, environment

Tell = Callable[..., Run]
WINE = pd.DataFrame(load_wine().data, columns=[f"w{i}" for i in range(13)])
MIB = 1 << 20


def _equal(ours: Any, theirs: Any) -> None:
    np.testing.assert_array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    assert ours.loss_ == theirs.loss_


@pytest.mark.parametrize("name", ["wine.csv", "wine.parquet", "wine.npy"])
@pytest.mark.parametrize("deep", [False, True])
def test_shell_path_and_frame_give_the_same_model(
    name: str, deep: bool, tell: Tell, tmp_path: Path
) -> None:
    WINE.to_csv(tmp_path / "wine.csv", index=False)
    WINE.to_parquet(tmp_path / "wine.parquet")
    np.save(tmp_path / "wine.npy", WINE.to_numpy())
    options = ["--deep"] if deep else ["--standardize"] if name == "wine.npy" else []
    tell("fit", name, "-k", 3, "--n-init", 1, *options, "--out", "model").worked()
    shell = load(tmp_path / "model")

    def model() -> Any:
        if deep:
            return DeepTELL(3, n_init=1, prepare=name != "wine.npy", random_state=0)
        if name == "wine.npy":
            return TELL(3, n_init=1, standardize=True, random_state=0)
        return TELL(3, n_init=1, geometry="euclidean", prepare=True, random_state=0)

    _equal(shell, model().fit(tmp_path / name))
    _equal(shell, model().fit(WINE))


def test_a_file_larger_than_memory_gives_the_same_model(tell: Tell, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(40_000, 4)).astype(np.float32)
    pq.write_table(pa.table({f"x{i}": rows[:, i] for i in range(4)}), tmp_path / "rows.parquet")
    tell("fit", "rows.parquet", "-k", 5, "--memory", "1MiB", "--out", "model").worked()
    shell = {"geometry": "euclidean", "prepare": True, "random_state": 0}
    theirs = TELL(5, memory="1MiB", **shell).fit(tmp_path / "rows.parquet")
    _equal(load(tmp_path / "model"), theirs)
    whole = TELL(5, **shell).fit(tmp_path / "rows.parquet")
    assert not np.array_equal(whole.cluster_centers_, theirs.cluster_centers_)
    line = tell("fit", "rows.parquet", "-k", 5, "--memory", "lots", "--force").failed()
    assert "memory must be" in line


def test_data_is_opened_once(tell: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WINE.to_csv(tmp_path / "wine.csv", index=False)
    np.savetxt(tmp_path / "bare.csv", WINE.to_numpy(), delimiter=",")
    np.save(tmp_path / "wine.npy", WINE.to_numpy())
    tell("fit", "wine.csv", "-k", 3, "--out", "model").worked()
    model, opened = load(tmp_path / "model"), []
    real = sources.open_source
    monkeypatch.setattr(
        prepared_tables,
        "open_source",
        lambda *given, **more: opened.append(1) or real(*given, **more),
    )
    for name in ("wine.csv", "bare.csv", "wine.npy"):
        source = open_like(model, str(tmp_path / name))
        assert source.n_features == 13
        assert len(opened) == 1, name
        opened.clear()


def test_a_fit_computes_no_distances_to_all_centres(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tell.cli.fitting import build, fit_and_save

    def refuse(*_: Any) -> None:
        raise AssertionError("the labels were known")

    monkeypatch.setattr(TELL, "transform", refuse)
    model = build(3, geometry="euclidean", seed=0, visible=False)
    result = fit_and_save(model, sources.open_source(WINE), tmp_path / "model")
    assert [entry["size"] for entry in result["clusters"]] == np.bincount(model.labels_).tolist()
    centers = model.centers_in_units()
    for cluster, entry in enumerate(result["clusters"]):
        rows = WINE.to_numpy()[model.labels_ == cluster]
        spread = np.sqrt(((rows - centers[cluster]) ** 2).sum(axis=1).mean())
        assert entry["spread"] == pytest.approx(spread)


# --- memory ------------------------------------------------------------------------------------

PEAK = """
import sys
from tell.cli.main import main
sys.argv = ["tell", *sys.argv[1:]]
code = main()
# Not ru_maxrss, which a process inherits from the one that started it.
status = open("/proc/self/status").read()
print("peak", int(status.partition("VmHWM:")[2].split()[0]) >> 10, file=sys.stderr)
sys.exit(code)
"""


def peak(folder: Path, *words: str) -> int:
    """The most memory that a command takes, in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *words],
        cwd=folder,
        env=environment() | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stderr.split()[-1])


def write_parquet(path: Path, rows: int) -> None:
    random, writer = np.random.default_rng(0), None
    for start in range(0, rows, 100_000):
        X = random.standard_normal((min(100_000, rows - start), 32), dtype=np.float32) + 1
        table = pa.table({f"x{i}": X[:, i] for i in range(32)})
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=False)
        writer.write_table(table)
    assert writer is not None
    writer.close()


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_the_peak_respects_the_limit_on_both_sides_of_it(geometry: str, tmp_path: Path) -> None:
    """Files of 102 and 256 MB, of which the first fits into 192 MiB with all that a fit needs."""
    limit, files = 192, {"tiny": 3000, "below": 800_000, "above": 2_000_000}
    for name, rows in files.items():
        write_parquet(tmp_path / f"{name}.parquet", rows)
    options = ("-k", "8", "--n-init", "1", "--geometry", geometry, "--memory", f"{limit}MiB")
    peaks = {
        name: peak(tmp_path, "fit", f"{name}.parquet", *options, "--out", name) for name in files
    }
    assert load(tmp_path / "below").history_  # that both were fitted
    assert len(load(tmp_path / "above").labels_) == 2_000_000
    for name in ("below", "above"):
        assert peaks[name] < limit + 600 * 10**6 // MIB, peaks
        assert peaks[name] - peaks["tiny"] < 1.5 * limit, peaks  # reading and labels have theirs
    given = peak(
        tmp_path, "predict", "above", "above.parquet", "--memory", "64MiB", "--out", "labels.npy"
    )
    assert given - peaks["tiny"] < 64 + 40
