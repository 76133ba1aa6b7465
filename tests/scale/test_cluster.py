"""A Ray cluster of several nodes: one is taken away, or the driver is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tell.core.sums import Extent
from tell.data.sources import open_source
from tell.exceptions import WorkerError
from tell.scale import ray_workers
from tell.scale.ray_workers import RayWorkers
from tell.scale.shards import Shard, Task
from tell.scale.workers import InProcess, sums

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]
N, K = 200_000, 8
X = np.random.default_rng(0).normal(size=(N, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs for workers, and one node with two."""
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    nodes.add_node(num_cpus=2)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    np.save(path, X)
    return path


FIT = """
import sys
import ray
from tell import TELL
from tell.scale.ray_workers import RayWorkers

each = RayWorkers.each
def told(self, *arguments):
    print(*ray.get([actor.pid.remote() for actor in self.actors]), flush=True)
    return each(self, *arguments)

RayWorkers.each = told
while True:
    TELL(8, random_state=0, workers=2, tol=0, max_iter=50).fit(sys.argv[1])
"""


def test_a_driver_that_is_interrupted_leaves_no_worker_behind(cluster: Any, path: Path) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", FIT, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "RAY_ADDRESS": cluster.address},
        text=True,
    )
    assert driver.stdout is not None
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 2
    assert all(map(alive, pids))
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=120)
    assert driver.returncode != 0
    deadline = time.monotonic() + 60
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, pids))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_node_that_is_removed(cluster: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers begin again on a node that comes in its place, and give the same sums."""
    centers = torch.from_numpy(X[:K].copy())
    task = Task(centers, "euclidean", Extent(N, torch.ones(4).double()), np.asarray)
    expected = sums(InProcess([Shard(open_source(path))]), task)
    workers = RayWorkers(open_source(path), N, 2, cache=0)
    try:
        assert torch.equal(sums(workers, task).exact, expected.exact)
        cluster.remove_node(cluster.worker_nodes.copy().pop())
        cluster.add_node(num_cpus=2)
        assert torch.equal(sums(workers, task).exact, expected.exact)
        cluster.remove_node(cluster.worker_nodes.copy().pop())
        monkeypatch.setattr(ray_workers, "PATIENCE", 1.0)
        with pytest.raises(WorkerError, match="lost nodes and only 0 are left"):
            sums(workers, task)
    finally:
        workers.close()
