"""Passes over files larger than memory: exact, bounded, and said in the history."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from tell import TELL, load
from tell.data.sources import open_source
from tell.exceptions import ParameterError

ROWS = make_blobs(60_000, 6, centers=8, cluster_std=3.0, random_state=1)[0] + 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    np.save(path, ROWS)
    return path


def test_passes_end_where_lloyd_ends(path: Path) -> None:
    options = {"geometry": "euclidean", "memory": "1MiB", "random_state": 0}
    sampled = TELL(8, passes=0, **options).fit(path)
    exact = TELL(8, passes=300, tol=1e-7, **options).fit(path)
    start = sampled.cluster_centers_
    lloyd = KMeans(8, init=exact.cluster_centers_, n_init=1, tol=0, max_iter=300).fit(ROWS)
    assert exact.loss_ == pytest.approx(lloyd.inertia_ / len(ROWS), rel=1e-6)
    assert exact.loss_ <= sampled.loss_
    same = TELL(8, passes=300, tol=1e-9, init=start, n_init=1, **options).fit(path)
    theirs = KMeans(8, init=start, n_init=1, tol=0, max_iter=300).fit(ROWS)
    assert same.loss_ == pytest.approx(theirs.inertia_ / len(ROWS), rel=1e-5)
    assert exact.history_[-1]["bound"] <= 1e-7
    assert np.array_equal(exact.labels_, exact.predict(ROWS))
    assert exact.cluster_sizes_.tolist() == np.bincount(exact.labels_).tolist()
    assert exact.score(ROWS) == pytest.approx(-exact.loss_)


def test_the_default_says_what_a_step_on_all_rows_would_bring(path: Path) -> None:
    model = TELL(8, memory="1MiB", random_state=0).fit(path)
    last = model.history_[-1]
    assert last["rows"] == len(ROWS)
    assert last["bound"] <= 1e-3  # ten times tol
    assert [run["chosen"] for run in model.runs_].count(True) == 1
    assert len(model.runs_) == model.n_init  # those of the sample
    one = TELL(8, memory="1MiB", passes=1, random_state=0).fit(path)
    assert one.loss_ <= model.loss_
    assert one.n_iter_ >= model.n_iter_


def test_chunks_of_any_size_give_the_same_clusters(path: Path) -> None:
    first, second = (
        TELL(8, memory="1MiB", passes=3, random_state=0).fit(open_source(path, chunk_rows=rows))
        for rows in (700, 60_000)
    )
    # The moments and the sample are those of one reading; what follows does not see the chunks.
    assert np.array_equal(first.labels_, second.labels_)
    np.testing.assert_allclose(first.cluster_centers_, second.cluster_centers_, rtol=1e-12)


def test_more_clusters_than_a_sample_can_show(path: Path, tmp_path: Path) -> None:
    """Of 2,048 sampled rows no 300 clusters can be learned: k-means‖ draws from all rows."""
    model = TELL(300, memory="1MiB", geometry="euclidean", random_state=0).fit(path)
    whole = KMeans(300, n_init=1, random_state=0, max_iter=30).fit(ROWS)
    assert model.runs_ == []
    assert model.loss_ <= 1.05 * whole.inertia_ / len(ROWS)
    assert len(np.unique(model.labels_)) == 300
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.history_ == model.history_
    assert np.array_equal(again.partial_fit(ROWS[:500]).labels_, model.predict(ROWS[:500]))


@pytest.mark.parametrize("wrong", [-1, "all", 1.5, True])
def test_wrong_passes(wrong: object) -> None:
    with pytest.raises(ParameterError, match="passes must be"):
        TELL(8, passes=wrong).fit(ROWS)  # type: ignore[arg-type]
