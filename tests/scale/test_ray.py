"""Fits by workers on Ray: the bits of one process, whatever happens to files and workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.datasets import make_blobs
from typer.testing import CliRunner

from tell import TELL, TablePreparation
from tell.cli.main import app
from tell.core.sums import Extent
from tell.data.sources import open_source
from tell.estimators import all_rows
from tell.estimators.fit_plan import FitPlan
from tell.exceptions import InputError, MissingDependencyError, ParameterError
from tell.scale.ray_workers import RayWorkers, start
from tell.scale.shards import Shard, Task, split
from tell.scale.workers import InProcess, sums

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # Ray's own
]
N, K = 300_000, 8
X = (make_blobs(N, 4, centers=K, cluster_std=2.0, random_state=0)[0] + 20).astype(np.float32)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    """An instance of its own, with two CPUs: another process may be testing a cluster beside."""
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray's own spelling)
    import ray

    ray.init(
        "local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    yield ray
    ray.shutdown()


def write(folder: Path, parts: list[np.ndarray], names: str = "abcd") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        table = pa.table(dict(zip(names, part.T, strict=True)))
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=40_000)
    return f"{folder}/*.parquet"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("rows"), np.array_split(X, 3))


@pytest.fixture(scope="module")
def fitted(files: str) -> TELL:
    return model().fit(files)


def in_process(rows: Any, shards: int, **options: Any) -> TELL:
    """The fit of workers, with all of them in this process."""
    source = open_source(rows)
    n = int(source.n_rows or 0)
    workers = InProcess([Shard(source, *part, cache=1 << 30) for part in split(n, 4, shards)])
    model = TELL(K, random_state=0, **options)
    model.n_features_in_ = 4
    seed = passes_seed()
    sample = all_rows.survey(workers, n, 8000, seed)
    model._adopt(all_rows.fit_all_rows(FitPlan(model, seed), workers, sample, to_tol=True))
    return model


def passes_seed() -> int:
    from tell.estimators.validation import draw_seed

    return draw_seed(0)


def model(**options: Any) -> TELL:
    return TELL(K, random_state=0, workers=2, **options)


def test_one_two_three_and_seven_shards_and_ray_give_the_same_bits(
    files: str, fitted: TELL
) -> None:
    for shards in (1, 2, 3, 7):
        theirs = in_process(files, shards)
        assert np.array_equal(fitted.cluster_centers_, theirs.cluster_centers_)
        assert np.array_equal(fitted.labels_, theirs.labels_)
        assert fitted.loss_ == theirs.loss_
    assert fitted.loss_ <= TELL(K, random_state=0).fit(files).loss_ * (1 + 1e-3)
    assert fitted.n_seen_ == N
    assert np.array_equal(fitted.predict(files), fitted.labels_)
    assert fitted.cluster_sizes_.tolist() == np.bincount(fitted.labels_, minlength=K).tolist()
    last = fitted.history_[-1]
    assert (last["rows"], last["workers"]) == (N, 2)
    assert min(last["seconds"], last["rows_per_second"], last["bytes"]) > 0
    assert last["rows_per_second_per_worker"] == pytest.approx(last["rows_per_second"] / 2)


def test_a_scaler_is_learned_by_workers_to_the_bit(files: str) -> None:
    options = {"geometry": "euclidean", "standardize": True}
    ours = model(**options).fit(files)
    for shards in (1, 3):
        theirs = in_process(files, shards, **options)
        assert np.array_equal(ours.cluster_centers_, theirs.cluster_centers_)
        assert np.array_equal(ours.mean_, theirs.mean_)
    np.testing.assert_allclose(ours.mean_, X.mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(ours.scale_, X.std(axis=0, dtype=np.float64))


def test_a_ray_data_set(files: str, fitted: TELL, cluster: Any) -> None:
    folder = str(Path(files).parent)
    ours = TELL(K, random_state=0).fit(cluster.data.read_parquet(folder))
    assert np.array_equal(ours.cluster_centers_, fitted.cluster_centers_)
    assert np.array_equal(ours.labels_, fitted.labels_)
    assert list(ours.feature_names_in_) == list("abcd")


def test_bytes_per_pass_do_not_depend_on_the_rows(fitted: TELL, tmp_path: Path) -> None:
    few = model(passes=1).fit(write(tmp_path / "few", [X[:140_000]]))
    a, b = ([e["bytes"] for e in found.history_ if "bytes" in e] for found in (few, fitted))
    assert abs(a[0] - b[0]) < 100
    assert max(b) < 2 * 2 * 8 * (K * (4 + 4) + 64 * 4) + 20_000  # centres, sums and worst rows


def task(rows: np.ndarray) -> Task:
    squares = torch.from_numpy(np.square(rows, dtype=np.float64).mean(axis=0))
    centers = torch.from_numpy(rows[:K].copy())
    return Task(centers, "euclidean", Extent(len(rows), squares), np.asarray)


def test_a_worker_killed_in_mid_pass_comes_back_with_the_same_sums(
    files: str, cluster: Any
) -> None:
    wanted = InProcess([Shard(open_source(files))])
    expected = sums(wanted, task(X))
    workers = RayWorkers(open_source(files), N, 2, cache=0)  # reads in every pass
    try:
        before = cluster.get([actor.pid.remote() for actor in workers.actors])
        killer = threading.Timer(0.05, os.kill, (before[1], signal.SIGKILL))
        killer.start()
        for _ in range(5):
            assert torch.equal(sums(workers, task(X)).exact, expected.exact)
        killer.join()
        after = cluster.get([actor.pid.remote() for actor in workers.actors])
        assert after[0] == before[0]
        assert after[1] != before[1]
    finally:
        workers.close()


def test_progress_is_that_of_all_workers(files: str) -> None:
    workers, told = RayWorkers(open_source(files), N, 2, cache=0), []
    workers.told = told.append
    try:
        for _ in range(3):
            sums(workers, task(X))
    finally:
        workers.close()
    assert max(told) > 0
    assert all(0 <= share <= 1 for share in told)


def test_a_damaged_file_is_named(files: str, tmp_path: Path) -> None:
    pattern = write(tmp_path, np.array_split(X, 3))
    path = tmp_path / "2.parquet"
    content = bytearray(path.read_bytes())
    content[1000:-4000] = bytes(len(content) - 5000)  # the footer says that all is well
    path.write_bytes(content)
    ours = model()
    with pytest.raises(InputError, match=r"2\.parquet"):
        ours.fit(pattern)
    assert not hasattr(ours, "cluster_centers_")


def test_a_gap_is_named_by_file_row_and_column(tmp_path: Path) -> None:
    rows = X.copy()
    rows[250_000, 2] = np.nan
    with pytest.raises(InputError, match=r"2\.parquet.*row 50000.*'c'|2\.parquet.*'c'.*50000"):
        model().fit(write(tmp_path, np.array_split(rows, 3)))


def test_columns_that_differ_between_files(tmp_path: Path) -> None:
    write(tmp_path, [X[:1000]])
    pq.write_table(pa.table(dict(zip("abce", X[:1000].T, strict=True))), tmp_path / "1.parquet")
    with pytest.raises(InputError, match=r"1\.parquet.*'d'"):
        model().fit(f"{tmp_path}/*.parquet")


@pytest.mark.parametrize("how", ["empty", "sorted", "skewed"])
def test_files_of_any_shape_give_what_their_rows_give(how: str, tmp_path: Path) -> None:
    rows = X[np.argsort(X[:, 0])] if how == "sorted" else X
    cuts = {"empty": [0, 150_000], "sorted": [100_000], "skewed": [3, 5, 299_990]}[how]
    pattern = write(tmp_path, np.split(rows, cuts))  # of 0, of sorted, and of fewer rows than k
    np.save(tmp_path / "rows.npy", rows)
    ours, theirs = model().fit(pattern), in_process(tmp_path / "rows.npy", 1)
    assert np.array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    assert np.array_equal(ours.labels_, theirs.labels_)


def test_an_interrupt_leaves_no_worker_behind(
    files: str, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def interrupt(self: RayWorkers, asked: list[Any]) -> list[bytes]:
        pids.extend(cluster.get([actor.pid.remote() for actor in self.actors]))
        raise KeyboardInterrupt

    monkeypatch.setattr(RayWorkers, "_collect", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model().fit(files)
    assert len(pids) == 2
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_bad_workers(files: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="at most the 2 CPUs"):
        TELL(K, workers=3).fit(files)
    for wrong in (0, "ray", 1.5):
        with pytest.raises(ParameterError, match="workers must be"):
            TELL(K, workers=wrong).fit(files)
    with pytest.raises(InputError, match="sample_weight"):
        model().fit(files, sample_weight=np.ones(N))
    assert start(2) is False  # it runs already
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"tell-clustering\[ray\]"):
        model().fit(files)


def test_rows_in_memory_need_no_workers() -> None:
    rows = X[:5000]
    ours, theirs = model().fit(rows), TELL(K, random_state=0).fit(rows)
    assert np.array_equal(ours.cluster_centers_, theirs.cluster_centers_)


def test_the_command(files: str, fitted: TELL, tmp_path: Path) -> None:
    folder, labels = tmp_path / "model", tmp_path / "labels"
    run = CliRunner().invoke
    done = run(
        app,
        ["fit", files, "-k", str(K), "--no-prepare", "--workers", "2", "-o", str(folder), "--json"],
    )
    assert done.exit_code == 0, done.output
    done = run(app, ["predict", str(folder), files, "--workers", "2", "--out", str(labels)])
    assert done.exit_code == 0, done.output
    written = sorted(labels.glob("*.parquet"))
    assert len(written) == 2
    found = np.concatenate([pq.read_table(path)["cluster"].to_numpy() for path in written])
    assert np.array_equal(found, fitted.labels_)
    alone = run(app, ["fit", files, "-k", "3", "--address", "auto", "-o", str(tmp_path / "m")])
    assert alone.exit_code == 2


@pytest.mark.parametrize("gaps", ["fill", "drop"])
def test_workers_read_a_table_through_its_preparation(gaps: Any, tmp_path: Path) -> None:
    names = np.array(["north", "south", "east", None], dtype=object)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "where": names[np.arange(N) % 4]})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=40_000)
    options: dict[str, Any] = {
        "geometry": "euclidean",
        "prepare": TablePreparation(gaps=gaps),
        "memory": "8MB",
    }
    ours = model(**options).fit(tmp_path / "rows.parquet")
    theirs = TELL(K, random_state=0, passes=300, **options).fit(tmp_path / "rows.parquet")
    assert ours.preparation_ == theirs.preparation_
    assert np.array_equal(ours.scale_, ours.preparation_.scale)
    assert len(ours.labels_) == len(theirs.labels_) == (N if gaps == "fill" else N * 3 // 4)
    assert ours.loss_ == pytest.approx(theirs.loss_, rel=0.05)
    assert all({"run", "kept"} <= set(entry) for entry in ours.history_)


RANK = """
import sys, hashlib, torch.distributed as dist
from tell import TELL
rank, port, files = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group(
    "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
model = TELL(8, random_state=0, workers="torchrun").fit(files)
print(hashlib.sha256(model.cluster_centers_.tobytes() + model.labels_.tobytes()).hexdigest())
dist.destroy_process_group()
"""


def test_torch_distributed_gives_the_same_bits(files: str, fitted: TELL) -> None:
    import hashlib
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(port), files], stdout=subprocess.PIPE
        )
        for rank in range(2)
    ]
    answers = {rank.communicate(timeout=120)[0].decode().strip() for rank in ranks}
    content = fitted.cluster_centers_.tobytes() + fitted.labels_.tobytes()
    assert answers == {hashlib.sha256(content).hexdigest()}
