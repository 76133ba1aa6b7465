"""Rows that belong to no cluster: as many as asked for of the usual ones, and all that are far."""

import numpy as np
import pytest
import torch

from tell import TELL, ParameterError, load
from tell.core.radii import BINS, Radii

CENTERS = 10 * np.random.default_rng(7).normal(size=(5, 6))


def rows(n: int, seed: int, geometry: str = "euclidean", times: float = 1.0) -> np.ndarray:
    """Five groups of different width and size; directions for the sphere."""
    random = np.random.default_rng(seed)
    labels = random.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    width = times * np.array([0.5, 1.0, 1.5, 2.0, 3.0])[labels]
    X = CENTERS[labels] + width[:, None] * random.normal(size=(n, 6))
    return X * random.lognormal(0, 0.5, (n, 1)) if geometry == "sphere" else X


@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
def test_of_fresh_rows_one_percent_is_rejected(geometry, tmp_path):
    model = TELL(5, geometry=geometry, random_state=0).fit(rows(20_000, 0, geometry))
    fresh = rows(40_000, 1, geometry)
    labels = model.predict(fresh, reject=0.01)
    assert abs((labels == -1).mean() - 0.01) < 0.003
    for j in range(5):  # in each cluster, not only on the whole
        assert abs((labels[model.predict(fresh) == j] == -1).mean() - 0.01) < 0.008
    assert np.array_equal(labels[labels >= 0], model.predict(fresh)[labels >= 0])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert np.array_equal(again.predict(fresh, reject=0.01), labels)
    assert np.array_equal(again.outlier_score(fresh[:100]), model.outlier_score(fresh[:100]))


@pytest.mark.filterwarnings("ignore::tell.DriftWarning")
@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
def test_a_stream_goes_on_calibrating(geometry):
    """The rows become half as wide again: with a half-life, 1 % of these is rejected in the end."""
    model = TELL(5, geometry=geometry, half_life=3000, random_state=0)
    model.fit(rows(5000, 0, geometry))
    fresh = rows(40_000, 1, geometry, times=1.5)
    assert (model.predict(fresh, reject=0.01) == -1).mean() > 0.05
    for seed in range(10, 30):
        model.partial_fit(rows(1000, seed, geometry, times=1.5))
    assert abs((model.predict(fresh, reject=0.01) == -1).mean() - 0.01) < 0.003


def test_gross_outliers_are_rejected_and_ranked():
    model = TELL(5, geometry="euclidean", random_state=0).fit(rows(5000, 0))
    far = np.array([[100.0] * 6, [1000.0] * 6, [-300.0] * 6])
    assert (model.predict(far, reject=0.001) == -1).all()
    score = model.outlier_score(far)
    assert score[1] > score[2] > score[0] > 0.9999
    inside = model.outlier_score(model.cluster_centers_)
    assert (inside < 0.05).all()


def test_few_rows_share_the_tail_of_all_clusters():
    """A cluster of 20 rows has no 99th percentile of its own: fresh rows must not be cast out."""
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(4000, 4)), 40 + random.normal(size=(20, 4))])
    model = TELL(2, geometry="euclidean", random_state=0).fit(X)
    fresh = 40 + random.normal(size=(5000, 4))
    assert (model.predict(fresh, reject=0.01) == -1).mean() < 0.08


def test_a_file_in_chunks_is_rejected_alike(tmp_path):
    X = rows(3000, 0).astype(np.float32)
    model = TELL(5, geometry="euclidean", random_state=0).fit(X)
    np.save(tmp_path / "rows.npy", X)
    path = str(tmp_path / "rows.npy")
    assert np.array_equal(model.predict(path, reject=0.05), model.predict(X, reject=0.05))


def test_passes_over_a_large_file_calibrate_too(tmp_path):
    X = rows(60_000, 0).astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    model = TELL(5, geometry="euclidean", memory="1MiB", random_state=0)
    model.fit(str(tmp_path / "rows.npy"))
    assert abs((model.predict(rows(20_000, 1), reject=0.05) == -1).mean() - 0.05) < 0.01


@pytest.mark.parametrize("reject", [0, 1, -0.1, "1%", float("nan")])
def test_bad_shares_are_named(reject):
    model = TELL(2, geometry="euclidean").fit(rows(50, 0))
    with pytest.raises(ParameterError, match="reject must be a share of rows between 0 and 1"):
        model.predict(rows(5, 1), reject=reject)


def test_radii_of_known_distances():
    """10,000 distances drawn evenly from 0 … 1: the share beyond x is 1 − x."""
    distances = torch.from_numpy((np.arange(10_000) + 0.5) / 10_000)
    labels = torch.zeros(10_000, dtype=torch.long)
    radii = Radii.measure(labels, distances, None, 1)
    assert radii.counts.shape == (1, BINS)
    for share in (0.5, 0.1, 0.01):
        assert abs(float(radii.limits(share)) - (1 - share)) < 0.005
    found = radii.farther(labels[:2], torch.tensor([0.25, 0.9], dtype=torch.float64))
    assert torch.allclose(found, torch.tensor([0.75, 0.1], dtype=torch.float64), atol=0.01)
    halved = radii.after(labels, 4 * distances, None, 0.0)
    assert abs(float(halved.limits(0.1)) - 3.6) < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_gross_outliers_do_not_pull_trimmed_centres(seed):
    """5 % of gross outliers: no centre moves by more than 1 % of its cluster's width."""
    from sklearn.cluster import KMeans

    random = np.random.default_rng(seed)
    middles = 20 * random.normal(size=(4, 5))
    labels = random.integers(0, 4, 2000)
    clean = middles[labels] + random.normal(size=(2000, 5))
    far = 300 * random.normal(size=(len(clean) // 19, 5))
    X = np.concatenate([clean, far])
    true = np.stack([clean[labels == j].mean(axis=0) for j in range(4)])
    share = len(far) / len(X)
    model = TELL(4, geometry="euclidean", trim=share, random_state=seed).fit(X)

    def moved(centers):
        return np.linalg.norm(true[:, None] - centers[None], axis=2).min(axis=1).max() / 5**0.5

    assert moved(model.cluster_centers_) < 0.01
    assert moved(KMeans(4, n_init=3, random_state=seed).fit(X).cluster_centers_) > 0.1
    assert np.array_equal(model.trimmed_, np.arange(len(X)) >= 2000)
    assert (model.predict(far, reject=0.001) == -1).mean() > 0.99


def test_directions_can_be_trimmed_too_and_bad_shares_are_named():
    random = np.random.default_rng(0)
    clean = np.repeat(np.eye(6)[:3], 100, axis=0) + 0.05 * random.normal(size=(300, 6))
    X = np.concatenate([clean, np.eye(6)[3:] + 0.3 * random.normal(size=(3, 6))])
    model = TELL(3, trim=0.01, random_state=0).fit(X)
    assert np.allclose(np.sort(model.cluster_centers_.max(axis=1)), 1, atol=0.01)
    assert model.trimmed_[300:].all()
    assert model.trimmed_.sum() == 3
    for bad in (-0.1, 0.5, "2%"):
        with pytest.raises(ParameterError, match="trim must be a share of the rows"):
            TELL(2, trim=bad).fit(X)
    assert not hasattr(model.set_params(trim=0.0).fit(X), "trimmed_")
