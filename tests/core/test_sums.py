"""Sums of rows: right by hand, and the same bits however the rows are split."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from torch import Tensor

from tell.core import sums
from tell.core.assignment import DenseRows, assign
from tell.core.engine import mean_loss
from tell.core.oversampling import Drawn, choose_seeds, draw_by_loss, first_centers
from tell.core.passes import descend
from tell.core.seeding import seed_centers
from tell.core.sums import Extent, Sums, cut, each_block, no_sums, sums_of

GEOMETRIES = ["sphere", "euclidean"]
DIGITS = torch.from_numpy(load_digits().data.astype(np.float32))


def extent(x: Tensor) -> Extent:
    return Extent(len(x), x.double().square().mean(dim=0))


def total(x: Tensor, centers: Tensor, geometry: str, size: int = 256, threads: int = 1) -> Sums:
    units = extent(x).units(centers, geometry)

    def work(block: Tensor, start: int) -> Sums:
        return sums_of(block, start, centers, geometry, units)[0]

    parts = each_block(cut([x], size), work, 0, threads)
    return sum(parts, start=no_sums(centers, units))


def test_sums_by_hand() -> None:
    x = torch.tensor([[0.0, 0.0], [2.0, 0.0], [10.0, 0.0], [10.0, 3.0]])
    found = total(x, torch.tensor([[1.0, 0.0], [10.0, 0.0], [99.0, 0.0]]), "euclidean", size=3)
    assert found.totals.sums.tolist() == [[2, 0], [20, 3], [0, 0]]
    assert found.totals.counts.tolist() == [2, 2, 0]
    assert found.cluster_losses.tolist() == [2, 9, 0]
    assert (found.rows, found.loss, found.loss_squares) == (4, 11 / 4, 1 + 1 + 81)
    assert found.lengths.tolist() == pytest.approx([2, 10 + 109**0.5, 0], rel=1e-6)
    assert found.worst.at.tolist() == [3, 0, 1, 2]
    assert found.worst.loss.tolist() == [9, 1, 1, 0]


def test_parts_of_any_size_become_the_same_blocks() -> None:
    whole = list(cut([DIGITS], 500))
    parts = list(cut(DIGITS.split([1, 0, 499, 700, 597]), 500))
    assert [len(block) for block in whole] == [500, 500, 500, 297]
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(st.lists(st.integers(0, 20), max_size=5), st.integers(1, 4), st.randoms())
@settings(max_examples=20, deadline=None)
def test_neither_splits_nor_order_nor_threads_change_a_bit(
    geometry: str, cuts: list[int], threads: int, random: object
) -> None:
    """Twenty-one blocks, in shards that are added in any order."""
    x = torch.randn(21 * 64 - 5, 7, generator=torch.Generator().manual_seed(0)) * 1e3
    centers = x[::300].clone()
    if geometry == "sphere":
        centers = torch.nn.functional.normalize(centers, dim=1)
    units = extent(x).units(centers, geometry)
    wanted = total(x, centers, geometry, size=64)
    bounds = [0, *sorted(cuts), 21]
    shards = []
    for a, b in pairwise(bounds):
        shard = no_sums(centers, units)
        for start in range(a * 64, min(b * 64, len(x)), 64):
            block = x[start : start + 64].clone()
            shard += sums_of(block, start, centers, geometry, units)[0]
        shards.append(shard)
    random.shuffle(shards)  # type: ignore[attr-defined]
    found = sum(shards, start=no_sums(centers, units))
    threaded = total(x, centers, geometry, size=64, threads=threads)
    for other in (found, threaded):
        assert torch.equal(other.exact, wanted.exact)
        assert torch.equal(other.worst.at, wanted.worst.at)
        assert torch.equal(other.worst.x, wanted.worst.x)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e15])
def test_units_suit_rows_of_any_size(scale: float) -> None:
    x = DIGITS.double() * scale
    found = total(x, x[:10].clone(), "euclidean")
    nearest = assign(DenseRows(x), x[:10], "euclidean")
    assert found.loss == pytest.approx(mean_loss(DenseRows(x), nearest), rel=1e-12)
    torch.testing.assert_close(found.totals.sums.sum(dim=0), x.sum(dim=0), rtol=1e-12, atol=0)


def test_one_outlier_does_not_drown_the_others() -> None:
    x = torch.cat([DIGITS.double(), torch.full((1, 64), 1e9, dtype=torch.float64)])
    centers = torch.cat([x[:3], x[-1:]])
    found = total(x, centers, "euclidean")
    alone = total(x[:-1], centers[:3], "euclidean")
    torch.testing.assert_close(found.totals.sums[:3], alone.totals.sums, rtol=1e-6, atol=1e-6)


def reducer(x: Tensor, geometry: str) -> object:
    return lambda centers: total(x, centers, geometry)


def test_passes_end_where_scikit_learn_ends() -> None:
    x = torch.from_numpy(make_blobs(4000, 6, centers=7, cluster_std=3, random_state=0)[0])
    start = x[:7].clone()
    found = descend(reducer(x, "euclidean"), start, "euclidean", tol=0, max_steps=300)
    lloyd = KMeans(7, init=start.numpy(), n_init=1, tol=0, max_iter=300).fit(x.numpy())
    assert found.converged
    assert found.sums.loss == pytest.approx(lloyd.inertia_ / len(x), rel=1e-9)
    np.testing.assert_allclose(found.centers, lloyd.cluster_centers_, rtol=1e-9)
    losses = [entry["loss"] for entry in found.history]
    assert losses == sorted(losses, reverse=True)
    assert len(found.history) == found.n_steps + 1


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_dead_centres_come_back_to_life_in_passes(geometry: str) -> None:
    start = DIGITS[:8].clone()
    start[4:] = -1  # no row of digits points there
    if geometry == "sphere":
        start = torch.nn.functional.normalize(start, dim=1)
    found = descend(reducer(DIGITS, geometry), start, geometry, tol=1e-4, max_steps=100)
    assert found.sums.totals.counts.min() > 0
    assert sum(entry["revived"] for entry in found.history) >= 4


def test_no_more_steps_than_asked_for() -> None:
    found = descend(reducer(DIGITS, "sphere"), DIGITS[:9] / 60, "sphere", tol=0, max_steps=2)
    assert (found.n_steps, found.converged, len(found.history)) == (2, False, 3)
    none = descend(reducer(DIGITS, "sphere"), DIGITS[:9] / 60, "sphere", tol=0, max_steps=0)
    assert torch.equal(none.centers, DIGITS[:9] / 60)


# --- k-means‖ ----------------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_oversampling_seeds_as_well_as_k_means_plus_plus(geometry: str) -> None:
    x = torch.from_numpy(make_blobs(6000, 5, centers=150, random_state=0)[0])
    rows, losses = DenseRows(x), []
    theirs = []
    for seed in range(4):
        first = first_centers(x[::60], 12, geometry, seed)
        drawn = Drawn(x[:0], x.new_zeros(0))
        for start in range(0, len(x), 1000):
            block = x[start : start + 1000]
            part = draw_by_loss(block, start, first, geometry, count=600, seed=seed)
            drawn = drawn.first_of(part, 600)
        assert len(drawn.x.unique(dim=0)) == 600
        candidates = torch.cat([first, drawn.x])
        if geometry == "sphere":
            candidates = torch.nn.functional.normalize(candidates, dim=1)
        weights = total(x, candidates, geometry).totals.counts
        seeds = choose_seeds(candidates, weights, 150, geometry, seed)
        losses.append(mean_loss(rows, assign(rows, seeds, geometry)))
        generator = torch.Generator().manual_seed(seed)
        other = seed_centers(rows, 150, "k-means++", geometry, generator)
        theirs.append(mean_loss(rows, assign(rows, other, geometry)))
    assert np.mean(losses) <= 1.1 * np.mean(theirs)


def test_rows_are_drawn_by_their_loss() -> None:
    """A hundred rows at distance 1 and a hundred at distance 3: nine times the loss."""
    x = torch.tensor([[1.0], [3.0]]).repeat_interleave(100, dim=0)
    far = 0
    for seed in range(400):
        drawn = draw_by_loss(x, 0, torch.zeros(1, 1), "euclidean", count=1, seed=seed)
        far += int(drawn.x[0, 0] == 3)
    assert far / 400 == pytest.approx(0.9, abs=0.06)


def test_blocks_are_bounded_in_rows_and_in_bytes() -> None:
    assert sums.block_rows(8) == 65536
    assert sums.block_rows(784) == 4096
    assert sums.block_rows(10**9) == 1
