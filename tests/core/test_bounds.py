"""Bounds between steps: whoever is not searched again has the label that a search would give."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tell.core import bounds
from tell.core.assignment import DenseRows, SparseRows, all_distances, assign, assign_two, totals
from tell.core.bounds import assign_bounded, worth_bounding
from tell.core.engine import Solver, fit_centers, step_to

GEOMETRIES = ["sphere", "euclidean"]


def gaussian(n: int, d: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def unit(x: Tensor, geometry: str) -> Tensor:
    return torch.nn.functional.normalize(x, dim=1) if geometry == "sphere" else x


def check(rows: DenseRows, centers: Tensor, geometry: str, found: bounds.Bounded) -> None:
    """Labels are those of a search, but for centres that are equally near within rounding."""
    labels, distances = found.assignment
    wanted = assign(rows, centers, geometry)
    exact = all_distances(DenseRows(rows.x.double()), centers.double(), geometry)
    scale = 1 if geometry == "sphere" else exact.max() + rows.x.double().square().sum(1).max()
    rounding = 4 * rows.shape[1] * torch.finfo(rows.x.dtype).eps * scale
    own = exact.gather(1, labels[:, None])[:, 0]
    assert (own <= exact.amin(dim=1) + rounding).all()
    different = labels != wanted.labels
    assert (own - exact.gather(1, wanted.labels[:, None])[:, 0])[different].abs().le(rounding).all()
    assert (distances.double() - own).abs().max() <= rounding
    # And no other centre is nearer than the bound says.
    exact.scatter_(1, labels[:, None], torch.inf)
    assert (found.others.double().square() <= exact.amin(dim=1) + rounding).all()


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.tuples(st.integers(1, 60), st.integers(1, 6), st.integers(2, 20)),
    moves=st.lists(st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 3.0]), min_size=1, max_size=6),
    some=st.floats(0.05, 1.0),
    repeated=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_labels_are_those_of_a_search_however_centres_move(
    geometry: str,
    seed: int,
    sizes: tuple[int, int, int],
    moves: list[float],
    some: float,
    repeated: bool,
) -> None:
    n, d, k = sizes
    x = gaussian(n, d, seed)
    centers = unit(gaussian(k, d, seed + 1), geometry)
    if repeated:  # rows and centres that coincide: ties
        x[n // 2 :] = x[: n - n // 2].clone()
        centers[k // 2 :] = centers[: k - k // 2].clone()
        centers[0] = unit(x[:1], geometry)[0]
    rows, found = DenseRows(x), None
    for step, length in enumerate(moves):
        found = assign_bounded(rows, centers, geometry, found)  # type: ignore[arg-type]
        check(rows, centers, geometry, found)
        chosen = torch.rand(k, generator=torch.Generator().manual_seed(seed + step)) < some
        drift = length * gaussian(k, d, seed + 2 + step) * chosen[:, None]
        centers = unit(centers + drift, geometry)
    check(rows, centers, geometry, assign_bounded(rows, centers, geometry, found))  # type: ignore[arg-type]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 12))
@settings(max_examples=60, deadline=None)
def test_whole_numbers_have_exactly_the_labels_of_a_search(
    geometry: str, seed: int, k: int
) -> None:
    """Products of small whole numbers are not rounded: ties are ties, and the first centre wins."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randint(-3, 4, (50, 3), generator=random).float()
    rows, found = DenseRows(x), None
    for _ in range(4):
        centers = torch.randint(-3, 4, (k, 3), generator=random).float()
        if geometry == "sphere":  # unit vectors of whole numbers
            centers = torch.eye(3)[centers[:, 0].abs().long() % 3] * centers[:, 1:2].sign()
            centers[~centers.any(dim=1)] = torch.tensor([1.0, 0.0, 0.0])
        found = assign_bounded(rows, centers, geometry, found)  # type: ignore[arg-type]
        assert torch.equal(found.assignment.labels, assign(rows, centers, geometry).labels)  # type: ignore[arg-type]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_few_rows_are_searched_again_when_few_centres_move(
    geometry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    means = 4 * gaussian(100, 16, 0)
    x = means.repeat(40, 1) + 0.3 * gaussian(4000, 16, 1)
    rows, centers = DenseRows(x), unit(means, geometry)
    before = assign_bounded(rows, centers, geometry)  # type: ignore[arg-type]
    searched = []

    def record(part: DenseRows, *rest: object) -> object:
        searched.append(part.shape[0])
        return assign_two(part, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(bounds, "assign_two", record)
    moved = unit(centers + 0.01 * gaussian(100, 16, 2), geometry)
    moved[7] = centers[8]  # far away, onto another
    after = assign_bounded(rows, moved, geometry, before)  # type: ignore[arg-type]
    check(rows, moved, geometry, after)
    assert 0 < sum(searched) < 400  # the rows of the one, and those that now have two


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_fit_with_bounds_takes_the_steps_of_one_without(
    geometry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = gaussian(3000, 8, 3, torch.float64)
    x += 3 * gaussian(70, 8, 4, torch.float64)[torch.arange(3000) % 70]
    assert worth_bounding(DenseRows(x), 70)
    bounded = fit_centers(DenseRows(x), 70, geometry=geometry, seed=1)  # type: ignore[arg-type]
    monkeypatch.setattr("tell.core.engine.worth_bounding", lambda rows, k: False)
    monkeypatch.setattr("tell.core.engine.CHEAP_TRIALS", 1)
    solver = Solver(70, geometry, lambda **_: None)  # type: ignore[arg-type]
    plain = solver.descend(DenseRows(x), bounded.centers.clone(), 1e-4, 5)
    assert torch.equal(plain.assignment.labels, bounded.assignment.labels)
    assert bounded.loss == pytest.approx(plain.loss, rel=1e-4)


def test_sparse_rows_and_few_clusters_keep_no_bounds() -> None:
    x = gaussian(10, 4, 0)
    sparse = SparseRows(torch.arange(11), torch.zeros(10, dtype=torch.long), x[:, 0], 4)
    assert not worth_bounding(sparse, 1000)
    assert not worth_bounding(DenseRows(x), 10)
    assert worth_bounding(DenseRows(x), 1000)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_steps_with_bounds_lower_the_loss_to_the_same_centres(geometry: str) -> None:
    x = gaussian(2000, 5, 9, torch.float64)
    rows, start = DenseRows(x), unit(x[:80].clone(), geometry)
    solver = Solver(80, geometry, lambda **_: None)  # type: ignore[arg-type]
    found = solver.descend(rows, start.clone(), 0.0, 12)
    centers = start.clone()
    for _ in range(found.n_iter):
        labels = assign(rows, centers, geometry).labels  # type: ignore[arg-type]
        centers = step_to(totals(rows, labels, 80, geometry), centers, geometry)  # type: ignore[arg-type]
    if not any(entry["revived"] for entry in solver.history):
        torch.testing.assert_close(found.centers, centers)
