"""The engine: invariances, degenerate rows, restarts, and the quality of what it finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from torch import Tensor

from tell.core import engine
from tell.core.assignment import DenseRows, Totals, all_distances, assign, totals
from tell.core.engine import Fit, fit_centers, mean_loss, promise, step_to

GEOMETRIES = ["sphere", "euclidean"]
DIGITS = torch.from_numpy(load_digits().data)


def fit(x: Tensor, k: int, weight: Tensor | None = None, **options: object) -> Fit:
    return fit_centers(DenseRows(x, weight), k, **options)  # type: ignore[arg-type]


def noise(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def distinct(x: Tensor, geometry: str) -> int:
    """Rows that differ by more than rounding."""
    if geometry == "sphere":
        x = torch.nn.functional.normalize(x[x.norm(dim=1) > 0], dim=1)
    return len((x * 1e6).round().unique(dim=0))


# --- one step ----------------------------------------------------------------------------------


def test_steps_by_hand() -> None:
    sums = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]])
    centers = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    part = Totals(sums, torch.tensor([10.0, 2.0, 0.0]))
    # Opposite rows cancel and no rows are none: both centres stay.
    assert step_to(part, centers, "sphere").tolist() == [
        [pytest.approx(0.6), pytest.approx(0.8)],
        [0.0, 1.0],
        [1.0, 0.0],
    ]
    wanted = torch.tensor([[0.3, 0.4], [0.0, 0.0], [1.0, 0.0]])
    torch.testing.assert_close(step_to(part, centers, "euclidean"), wanted)


def test_loss_by_hand() -> None:
    x = torch.tensor([[0.0], [3.0]])
    for weight, wanted in ((None, 4.5), (torch.tensor([2.0, 1.0]), 3.0)):
        rows = DenseRows(x, weight)
        nearest = assign(rows, torch.tensor([[0.0]]), "euclidean")
        assert mean_loss(rows, nearest) == wanted


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_every_step_lowers_the_loss_unless_a_centre_is_moved(geometry: str) -> None:
    found = fit(DIGITS, 10, init="random", geometry=geometry)
    losses = [entry["loss"] for entry in found.history]
    for before, after in zip(losses, found.history[1:], strict=False):
        assert after["loss"] <= before * (1 + 1e-9) or after["revived"]


# --- invariances -------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(st.lists(st.integers(1, 4), min_size=6, max_size=40), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_a_weight_is_a_repetition(geometry: str, counts: list[int], seed: int) -> None:
    x, times = noise(len(counts), 3, seed), torch.tensor(counts)
    weighted = fit(x, 4, times.double(), geometry=geometry, seed=seed)
    repeated = fit(x.repeat_interleave(times, dim=0), 4, geometry=geometry, seed=seed)
    torch.testing.assert_close(weighted.centers, repeated.centers)
    assert weighted.loss == pytest.approx(repeated.loss)
    torch.testing.assert_close(weighted.counts, repeated.counts)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(st.permutations(range(30)), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_the_order_of_rows_does_not_matter(geometry: str, order: list[int], seed: int) -> None:
    x = noise(30, 3, seed)
    first, second = (fit(part, 4, geometry=geometry, seed=seed) for part in (x, x[order]))
    torch.testing.assert_close(first.centers, second.centers)
    assert torch.equal(first.assignment.labels[order], second.assignment.labels)


@given(st.floats(1e-3, 1e3), st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_the_scale_of_weights_does_not_matter(scale: float, seed: int) -> None:
    x, weight = noise(40, 3, seed), torch.rand(40, dtype=torch.float64) + 0.1
    first, second = (fit(x, 4, weight * factor, seed=seed) for factor in (1.0, scale))
    torch.testing.assert_close(first.centers, second.centers)


def test_on_the_sphere_the_unit_of_measurement_does_not_matter() -> None:
    assert torch.equal(fit(DIGITS, 5).centers, fit(DIGITS * 1024, 5).centers)


@pytest.mark.parametrize("n", [1797, 30_000])
def test_one_seed_gives_the_same_bits(n: int) -> None:
    x = DIGITS if n == 1797 else noise(n, 8)
    first, second, other = (fit(x, 10, n_init=2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.centers, second.centers)
    assert torch.equal(first.assignment.labels, second.assignment.labels)
    assert first.history == second.history
    assert not torch.equal(first.centers, other.centers)


# --- degenerate rows ---------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(
    st.lists(st.tuples(*[st.integers(-2, 2)] * 2), min_size=1, max_size=25),
    st.integers(1, 8),
    st.sampled_from(["k-means++", "random", "kaiming"]),
    st.sampled_from([torch.float32, torch.float64]),
)
@settings(max_examples=60, deadline=None)
def test_no_cluster_is_empty_where_rows_suffice(
    geometry: str, cells: list[tuple[int, int]], k: int, init: str, dtype: torch.dtype
) -> None:
    x = torch.tensor(cells, dtype=dtype)
    found = fit(x, k, geometry=geometry, init=init, max_iter=50)
    assert torch.isfinite(found.centers).all()
    used = len(found.assignment.labels[x.norm(dim=1) > 0].unique())
    used = used if geometry == "sphere" else len(found.assignment.labels.unique())
    assert used == min(k, distinct(x, geometry))
    assert found.n_iter < 500


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_as_many_clusters_as_rows(geometry: str) -> None:
    found = fit(DIGITS[:60], 60, geometry=geometry)
    assert len(found.assignment.labels.unique()) == 60
    assert found.loss == pytest.approx(0, abs=1e-9)


def test_one_cluster_is_the_mean() -> None:
    found = fit(DIGITS, 1, geometry="euclidean")
    torch.testing.assert_close(found.centers[0], DIGITS.mean(dim=0))
    unit = torch.nn.functional.normalize(DIGITS, dim=1).mean(dim=0)
    torch.testing.assert_close(fit(DIGITS, 1).centers[0], unit / unit.norm())


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_constant_columns_change_nothing_in_position(geometry: str) -> None:
    x = torch.cat([noise(100, 3), torch.zeros(100, 2)], dim=1)
    found = fit(x, 4, geometry=geometry)
    assert not found.centers[:, 3:].any()
    assert torch.isfinite(found.centers).all()


def test_opposite_rows() -> None:
    found = fit(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), 1)
    torch.testing.assert_close(found.centers.norm(dim=1), torch.ones(1))
    assert found.loss == pytest.approx(2)


@pytest.mark.parametrize("init", ["far", "all alike"])
def test_revived_centres_are_recorded(init: str) -> None:
    start = DIGITS[:5].clone() + (1e6 if init == "far" else 0)
    start[:4] = start[0] if init == "all alike" else start[:4]
    before = start.clone()
    found = fit(DIGITS, 5, init=start, geometry="euclidean")
    assert found.history[0]["revived"] >= 3
    assert found.counts.min() > 0
    assert torch.equal(start, before)  # the caller's


# --- samples -----------------------------------------------------------------------------------


def test_a_growing_sample_finds_what_all_rows_show() -> None:
    x, _ = make_blobs(60_000, 6, centers=12, cluster_std=2.0, random_state=0)
    rows = torch.from_numpy(x.astype(np.float32))
    found = fit(rows, 12, geometry="euclidean", n_init=2)
    sizes = {entry["rows"] for entry in found.history}
    assert min(sizes) < 5000 < max(sizes - {60_000}) < 60_000 == max(sizes)
    whole = KMeans(12, n_init=2, random_state=0).fit(x)
    assert found.loss <= 1.005 * whole.inertia_ / len(x)
    assert found.counts.sum() == len(x)
    assert torch.equal(assign(DenseRows(rows), found.centers, "euclidean")[0], found.assignment[0])


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_fit_in_memory_ends_where_lloyd_ends(geometry: str) -> None:
    """8,000 rows, of which a sample has 5,000: all of them have their say in the end."""
    x, _ = make_blobs(8000, 9, centers=5, cluster_std=4.0, random_state=3)
    rows = torch.from_numpy(x)
    sampled = fit(rows, 5, geometry=geometry, passes=0)
    found = fit(rows, 5, geometry=geometry)
    assert found.loss <= sampled.loss
    assert found.history[-1]["rows"] == 8000
    assert found.history[-1]["bound"] <= 1e-4 < sampled.history[-1]["bound"]
    exact = fit(rows, 5, geometry=geometry, passes=300, tol=1e-9, init=found.centers)
    if geometry == "euclidean":
        lloyd = KMeans(5, init=found.centers.numpy(), n_init=1, tol=0, max_iter=300).fit(x)
        assert exact.loss == pytest.approx(lloyd.inertia_ / len(x), rel=1e-6)
    assert found.loss == pytest.approx(exact.loss, rel=1e-3)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_what_a_step_promises_is_what_it_takes_off(geometry: str, seed: int) -> None:
    rows, centers = DenseRows(noise(60, 3, seed)), noise(4, 3, seed + 1)
    if geometry == "sphere":
        centers = torch.nn.functional.normalize(centers, dim=1)
    before = assign(rows, centers, geometry)
    part = totals(rows, before.labels, 4, geometry)
    moved = step_to(part, centers, geometry)
    after = all_distances(rows, moved, geometry).gather(1, before.labels[:, None])[:, 0]
    wanted = float((before.distances - after).mean())
    assert promise(part, centers, geometry) == pytest.approx(wanted, abs=1e-12)


def test_a_rare_cluster_that_no_sample_saw_is_not_lost_to_an_empty_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "FIRST_SAMPLE", 64)
    x = torch.zeros(20_000, 1).double()
    x[:3] = torch.tensor([[5.0], [7.0], [9.0]])
    found = fit(x, 4, geometry="euclidean")
    assert found.counts.min() > 0
    assert found.loss == pytest.approx(0, abs=1e-12)


def test_a_rough_answer_spends_its_time_on_all_rows() -> None:
    """Of 300 clusters: seeded on 8 rows of each, then a step on all rows."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(300, 8, generator=generator)
    x = centers.repeat(60, 1) + 0.3 * torch.randn(18_000, 8, generator=generator)
    rough, fine = (fit(x, 300, geometry="euclidean", tol=tol) for tol in (0.1, 1e-3))
    assert 1800 < rough.history[0]["rows"] <= 2400  # drawn with repetition
    assert fine.history[0]["rows"] > 7000
    assert [entry["rows"] for entry in rough.history].count(18_000) >= 2
    assert fine.loss <= rough.loss < 1.2 * fine.loss


@pytest.mark.parametrize("tol", [0.0, 1e-4, 1e-3])
def test_a_fine_answer_is_seeded_on_many_rows(tol: float) -> None:
    assert engine.first_sample(1000, tol) == 32_000
    assert engine.first_sample(3, tol) == engine.FIRST_SAMPLE


# --- the budget --------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("max_iter", [1, 9, 30])
def test_max_iter_is_the_most_steps_of_a_run(max_iter: int, geometry: str) -> None:
    found = fit(DIGITS, 20, max_iter=max_iter, n_init=2, geometry=geometry)
    assert all(1 <= run.n_iter <= max_iter for run in found.runs)
    assert len(found.history) == sum(run.n_iter for run in found.runs)


def test_a_run_that_was_cut_short_has_not_converged() -> None:
    assert not fit(DIGITS, 20, max_iter=1).descent.converged
    assert fit(DIGITS, 20).descent.converged
    first = fit(DIGITS, 20, init="random")
    again = fit(DIGITS, 20, init="random", max_iter=first.n_iter)
    assert again.descent.converged


def test_a_run_that_converged_needs_no_relocation_to_say_so() -> None:
    """Three separate groups: the descent is done long before the relocations are."""
    x = torch.tensor([[0.0], [10.0], [30.0]]).repeat_interleave(50, dim=0) + noise(150, 1) / 10
    found = fit(x, 3, geometry="euclidean", max_iter=4)
    assert found.descent.converged
    assert found.n_iter <= 4


# --- restarts and quality ----------------------------------------------------------------------


def test_the_restart_with_the_smallest_loss_wins() -> None:
    found = fit(DIGITS, 10, init="random", n_init=6)
    losses = [run.loss for run in found.runs]
    assert len(losses) == 6
    assert max(losses) > min(losses)
    assert [run.chosen for run in found.runs] == [loss == min(losses) for loss in losses]
    assert found.loss == pytest.approx(min(losses))
    assert len({run.seed for run in found.runs}) == 6
    assert len(found.history) == sum(run.n_iter for run in found.runs)


def blobs(k: int) -> np.ndarray:
    return make_blobs(2000, 8, centers=k, cluster_std=1.5, random_state=k)[0]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize(
    ("data", "k"), [("digits", 10), ("blobs", 10), ("blobs", 50), ("blobs", 100)]
)
def test_mean_loss_is_that_of_the_best_k_means(data: str, k: int, geometry: str) -> None:
    x = DIGITS.numpy() if data == "digits" else blobs(k)
    if geometry == "sphere":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    rows = torch.from_numpy(x)
    theirs = [KMeans(k, n_init=3, random_state=seed).fit(x) for seed in range(3)]
    ours = [fit(rows, k, n_init=3, seed=seed, geometry=geometry).loss for seed in range(3)]
    assert np.mean(ours) <= 1.005 * min(_loss_of(model, rows, geometry) for model in theirs)


def _loss_of(model: KMeans, rows: Tensor, geometry: str) -> float:
    if geometry == "euclidean":
        return float(model.inertia_) / len(rows)
    centers = torch.nn.functional.normalize(torch.from_numpy(model.cluster_centers_), dim=1)
    return mean_loss(DenseRows(rows), assign(DenseRows(rows), centers, geometry))


def test_a_few_heavy_rows_are_never_missed_by_a_sample() -> None:
    """60,000 light rows around the origin, twelve heavy ones far out: only those matter."""
    random = np.random.default_rng(0)
    x, weight = random.normal(size=(60_000, 2)), np.full(60_000, 1e-3)
    heavy = random.choice(len(x), 12, replace=False)
    corners = np.array([[20.0, 0], [0, 20], [-20, 0]])
    x[heavy], weight[heavy] = corners[np.arange(12) % 3], 1000.0
    found = fit(torch.from_numpy(x), 3, torch.from_numpy(weight), geometry="euclidean")
    best = KMeans(3, n_init=5, random_state=0).fit(x, sample_weight=weight)
    assert found.loss <= 1.01 * best.inertia_ / weight.sum()
