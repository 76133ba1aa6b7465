"""DeepTELL on files larger than memory: every row is trained on, few are held."""

from __future__ import annotations

import pickle
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
from PIL import Image
from sklearn.datasets import load_digits, make_blobs

from tell import DeepTELL, evaluate, load
from tell.core.loop import Hook, Loop
from tell.core.objective import Losses
from tell.data.sources import open_source
from tell.estimators import GraphStart, KMeansStart, PaperRecipe, TellRecipe
from tell.estimators.deep.inputs import InputScale
from tell.estimators.deep.streaming import SourceRows, StreamedBatches
from tell.exceptions import InputError

N, K = 6_000, 5
X, Y = make_blobs(N, 12, centers=K, cluster_std=2.0, random_state=0)
X = X.astype(np.float32)
SORTED = X[np.argsort(Y, kind="stable")]
pytestmark = pytest.mark.filterwarnings("ignore:.*clusters are empty")  # after so few steps
SMALL: dict[str, Any] = {"memory": "1MiB", "random_state": 0, "start": KMeansStart(epochs=1)}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows sorted by their cluster, in row groups: the hardest order."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    table = pa.table({f"x{number}": column for number, column in enumerate(SORTED.T)})
    pq.write_table(table, path, row_group_size=1000)
    return path


class RowsSeen(Hook):
    """Counts the rows of every stage's last epoch, and can break off."""

    def __init__(self, end: int = 1 << 30) -> None:
        self.rows: dict[str, int] = {}
        self.end = end

    def on_epoch_start(self, loop: Loop) -> None:
        self.rows[loop.name] = 0

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        self.rows[loop.name] += len(next(iter(losses.terms.values())))
        self.end -= loop.name == "tell"
        if not self.end:
            raise KeyboardInterrupt


def rows_of(path: Path, buffer: int = 1 << 16) -> SourceRows:
    return SourceRows(
        open_source(path), N, InputScale(np.zeros(12), np.full(12, 2.0)), "cpu", buffer
    )


def test_an_epoch_is_every_row_once_in_another_order_each_time(path: Path) -> None:
    batches = StreamedBatches(torch.zeros(300, 12), rows_of(path), 250, seed=3)
    first, again, second = (
        torch.cat([batch.x for batch in batches.epoch(epoch)]).numpy() for epoch in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second)
    for epoch in (first, second):
        np.testing.assert_array_equal(*(rows[np.lexsort(rows.T)] for rows in (2 * epoch, SORTED)))
    assert (batches.steps, batches.n_rows) == (24, N)
    late = torch.cat([batch.x for batch in batches.epoch(0, start=20)]).numpy()
    assert np.array_equal(late, first[20 * 250 :])
    assert sum(map(len, batches.in_order())) == 300


def test_batches_of_a_sorted_file_are_mixed(path: Path) -> None:
    batches = StreamedBatches(torch.zeros(300, 12), rows_of(path), 250)
    centers = np.stack([X[label == Y].mean(axis=0) for label in range(K)])
    for batch in batches.epoch(0):
        nearest = np.square(2 * batch.x.numpy()[:, None] - centers).sum(-1).argmin(1)
        assert np.bincount(nearest, minlength=K).max() < 0.6 * len(nearest)


@pytest.mark.parametrize("start", [GraphStart(graph_rows=800, layout_epochs=20), KMeansStart(8)])
def test_a_file_larger_than_memory_is_learned_as_well(start: Any, path: Path) -> None:
    seen = RowsSeen()
    model = DeepTELL(K, **SMALL | {"start": start}, epochs=2, hooks=[seen]).fit(path)
    labels = np.sort(Y, kind="stable")
    assert evaluate(labels, model.labels_).acc > 0.97
    assert np.array_equal(model.labels_, model.predict(path))
    assert model.loss_ == pytest.approx(-model.score(path), rel=1e-5)
    assert N - 256 < seen.rows["tell"] <= N
    if isinstance(start, GraphStart):  # which keeps something for each of its rows
        assert seen.rows["refine"] < N / 2
    else:
        assert seen.rows["reconstruct"] == seen.rows["tell"]
    told = [line for line in model.history_ if line["stage"] == "tell"]
    assert all(line["changed"] is None and line["smallest"] is None for line in told)
    assert told[-1]["relabelled"] < 0.05
    assert model.cluster_sizes_.tolist() == np.bincount(model.labels_).tolist()


def test_a_file_within_memory_is_the_array(path: Path) -> None:
    ours, theirs = (
        DeepTELL(K, **SMALL | {"memory": "1GiB"}, epochs=1).fit(rows) for rows in (path, SORTED)
    )
    assert np.array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    assert np.array_equal(ours.labels_, theirs.labels_)


@pytest.mark.parametrize(
    "recipe", [PaperRecipe(1, 1), PaperRecipe(1, 1, two_stage=True), TellRecipe(2)]
)
def test_every_recipe_takes_a_source(recipe: Any, path: Path) -> None:
    options: dict[str, Any] = {"recipe": recipe, "start": None, "encoder": "mlp"}
    if isinstance(recipe, TellRecipe):  # its centres alone move, on rows as they are encoded
        options |= {"encoder": torch.nn.Linear(12, 4), "decoder": None, "start": "k-means++"}
    seen = RowsSeen()
    model = DeepTELL(K, **SMALL | options, hooks=[seen]).fit(path)
    assert len(model.labels_) == N
    assert all(N - 256 < rows <= N for rows in seen.rows.values())


# The random_state of the first and of the second fit; a generator has gone on meanwhile.
SEEDS: dict[str, Callable[[int], Any]] = {
    "number": lambda fit: 0,
    "generator": lambda fit: np.random.RandomState(fit),
    "none": lambda fit: None,
}


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
def test_an_interrupted_training_goes_on_in_the_file(
    seed: Callable[[int], Any], path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter(range(9))
    if seed(0) is None:  # a new one each time, of which the first is told here
        monkeypatch.setattr("tell.estimators.deep.estimator.draw_seed", lambda _: next(drawn))
    options: dict[str, Any] = {**SMALL, "epochs": 1}
    whole = DeepTELL(K, **options | {"random_state": seed(0)}).fit(path)
    drawn = iter(range(9))
    options |= {"checkpoint": tmp_path / "state"}
    monkeypatch.setattr("tell.estimators.deep.training.CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        DeepTELL(K, hooks=[RowsSeen(end=30)], **options | {"random_state": seed(0)}).fit(path)
    model = DeepTELL(K, **options | {"random_state": seed(1)}).fit(path)
    assert np.array_equal(model.cluster_centers_, whole.cluster_centers_)
    assert np.array_equal(model.labels_, whole.labels_)


def test_the_rows_can_be_sent_to_another_process(path: Path) -> None:
    rows = rows_of(path)
    sent = pickle.loads(pickle.dumps(rows))
    for ours, theirs in zip(rows.shuffled(500, 0, 0), sent.shuffled(500, 0, 0), strict=True):
        assert torch.equal(ours, theirs)


def test_a_folder_of_images(tmp_path: Path) -> None:
    digits = load_digits()
    images = np.kron(digits.images[:1000] * 15, np.ones((1, 3, 3))).astype(np.uint8)
    (tmp_path / "images").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "images" / f"{number:04d}.png")
    seen = RowsSeen()
    options = SMALL | {"memory": "4MiB", "encoder": "fcn", "start": "random"}
    model = DeepTELL(3, **options, epochs=1, hooks=[seen]).fit(tmp_path / "images")
    assert seen.rows["tell"] > 900
    assert len(model.labels_) == 1000
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(tmp_path / "images"), model.labels_)


def test_labels_of_a_file_larger_than_memory_cannot_be_a_start(path: Path) -> None:
    with pytest.raises(InputError, match="start must hold labels of rows that memory holds"):
        DeepTELL(K, **SMALL | {"start": Y}).fit(path)


def test_what_can_be_read_once_is_refused() -> None:
    def stream() -> Any:
        return (X[at : at + 500] for at in range(0, N, 500))

    fit: Callable[[Any], Any] = DeepTELL(K, **SMALL).fit
    with pytest.raises(InputError, match="once"):
        fit(stream())


TRAIN = """
import sys
import numpy as np
from tell import DeepTELL
from tell.data.sources import open_source

def peak():  # not ru_maxrss, which a process inherits from the one that started it
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10

options = dict(start="random", epochs=1, random_state=0, memory="16MiB", max_time=0.2)
import warnings
warnings.simplefilter("ignore")
DeepTELL(4, **options).fit(np.random.default_rng(0).random((500, 32), dtype=np.float32))
before = peak()
model = DeepTELL(4, **options).fit(open_source(sys.argv[1], chunk_rows=8192))
print(len(model.labels_), peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_memory_stays_far_below_the_size_of_the_file(tmp_path: Path) -> None:
    """128 MB are trained on and labelled with a growth of at most 90 MB."""
    n = 1_000_000
    rows = np.random.default_rng(0).random((n, 32), dtype=np.float32)
    table = pa.table({f"x{number}": column for number, column in enumerate(rows.T)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=1 << 16, use_dictionary=False)
    command = [sys.executable, "-c", TRAIN, str(tmp_path / "rows.parquet")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    labelled, growth = map(int, done.stdout.split())
    assert labelled == n
    assert growth < 90
