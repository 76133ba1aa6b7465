"""DeepTELL by several processes: one model, the same in all of them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs
from typer.testing import CliRunner

import tell
from tell import DeepTELL, evaluate
from tell.cli.main import app
from tell.core.batches import Batches
from tell.core.loop import Hook, Loop
from tell.core.objective import Losses
from tell.estimators import KMeansStart
from tell.exceptions import InputError, ParameterError, WorkerError
from tell.scale import ray_training

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
N, K = 3_000, 4
X, Y = make_blobs(N, 12, centers=K, cluster_std=2.0, random_state=0)
X = X.astype(np.float32)
OPTIONS: dict[str, Any] = {"epochs": 1, "random_state": 0, "workers": 2}

RANK = """
import hashlib, json, sys
import numpy as np, torch, torch.distributed as dist
from tell import DeepTELL
from tell.core.loop import Hook
from tell.estimators import GraphStart, KMeansStart

class Watch(Hook):
    lengths, rows, half = [], 0, set()
    def on_step_end(self, loop, losses):
        if loop.name == "tell":
            self.lengths.append(loop.objective.layer.weight.grad.norm(dim=1))
            self.rows += len(losses.terms["clustering"])
        self.half.add(len(losses.terms["reconstruction"]))
    def on_epoch_end(self, loop, record):
        if loop.name == "tell" and dist.get_rank() == 1:
            loop.stop("by the second rank")

rank, port, path, memory = int(sys.argv[1]), *sys.argv[2:]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
start = GraphStart(epochs=1, layout_epochs=10, distil_steps=20, graph_rows=500)
watch = Watch()
model = DeepTELL(4, start=start, epochs=2, random_state=0, workers="torchrun", memory=memory,
                 hooks=[watch]).fit(path)
digest = hashlib.sha256()
modules = (model.encoder_, model.decoder_, model.layer_)
for module in modules:
    for value in module.state_dict().values():
        digest.update(value.contiguous().numpy().tobytes())
digest.update(model.labels_.tobytes())
lengths = torch.stack(watch.lengths)
print(json.dumps({"model": digest.hexdigest(), "rows": watch.rows, "batch": max(watch.half),
    "lengths": [float(lengths.min()), float(lengths.max())], "labels": model.labels_.tolist(),
    "epochs": sum(line["stage"] == "tell" for line in model.history_)}))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("memory", ["1GiB", "1MiB"])
def test_all_ranks_hold_the_same_model(memory: str, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(port), tmp_path / "rows.npy", memory],
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    first, second = (json.loads(rank.communicate(timeout=300)[0]) for rank in ranks)
    assert first["model"] == second["model"]
    # The gradient of a centre is given its length, a tenth of 2 α, after the mean over both ranks:
    # the mean of two vectors of this length would be shorter.
    for found in (first, second):
        assert found["lengths"] == pytest.approx([0.2, 0.2], rel=1e-5)
        assert found["epochs"] == 1  # one rank's hook stops both
    assert N - 128 < first["rows"] + second["rows"] <= N
    assert evaluate(Y, np.array(first["labels"])).acc > 0.97


def test_shares_are_disjoint_and_together_are_all_rows() -> None:
    x = torch.arange(101.0)[:, None]
    shares = [Batches(x, 20, seed=1, share=(number, 2)) for number in range(2)]
    seen = [torch.cat([batch.row for batch in share.epoch(0)]) for share in shares]
    assert [share.steps for share in shares] == [5, 5]
    assert [len(batch.row) for batch in shares[0].epoch(0)] == [10] * 5
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(100))
    assert not torch.equal(seen[0], seen[1] - 1)


class Faulty(Hook):
    """Ends one of the processes in its first attempt, or says what is wrong with the rows."""

    def __init__(self, how: str, mark: Path) -> None:
        self.how, self.mark = how, mark

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        import torch.distributed as dist

        if dist.get_rank() != 1 or loop.position != (0, 2):
            return
        if self.how == "input":
            raise InputError("row 7 of rows.npy cannot be read")
        if self.how == "always" or not self.mark.exists():
            self.mark.touch()
            os._exit(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """An instance of its own: another process may be testing a cluster beside."""
    import ray

    ray.init(
        "local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    yield ray
    ray.shutdown()


def model(**options: Any) -> DeepTELL:
    return DeepTELL(K, start=KMeansStart(epochs=4), **OPTIONS | options)


def test_ray_actors_train_together(cluster: Any, tmp_path: Path) -> None:
    ours = model().fit(X)
    assert evaluate(Y, ours.labels_).acc > 0.97
    assert np.array_equal(ours.labels_, ours.predict(X))
    disturbed = model(hooks=[Faulty("once", tmp_path / "mark")]).fit(X)
    assert (tmp_path / "mark").exists()
    assert np.array_equal(ours.cluster_centers_, disturbed.cluster_centers_)


def test_the_command_trains_by_workers(cluster: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", X[:600])
    words = [
        "fit",
        tmp_path / "rows.npy",
        "-k",
        K,
        "--deep",
        "--workers",
        2,
        "--start",
        "k-means++",
    ]
    done = CliRunner().invoke(app, [*map(str, words), "--out", str(tmp_path / "model"), "--json"])
    assert done.exit_code == 0, done.output
    model = tell.load(tmp_path / "model")
    assert json.loads(done.stdout)["n_clusters"] == K
    assert evaluate(Y, model.predict(X)).acc > 0.95


def test_what_goes_wrong_in_a_process_is_said(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"row 7 of rows\.npy"):
        model(hooks=[Faulty("input", tmp_path / "mark")]).fit(X)
    monkeypatch.setattr(ray_training, "RETRIES", 0)
    with pytest.raises(WorkerError, match="workers=2 processes must live"):
        model(hooks=[Faulty("always", tmp_path / "mark")]).fit(X)
    with pytest.raises(ParameterError, match="at most the 2 CPUs"):
        model(workers=3).fit(X)


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": "ray"}])
def test_wrong_workers(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="workers must be"):
        model(**wrong).fit(X)


@pytest.mark.parametrize("other", [{"checkpoint": "state"}, {"n_jobs": 2}])
def test_options_that_exclude_workers(other: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="leave out checkpoint and n_jobs"):
        model(**other).fit(X)
