"""Rows, dense and sparse: the same products, sums and distances, whatever the block size."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tell.core import array_search
from tell.core import assignment as module
from tell.core.assignment import (
    DenseRows,
    Rows,
    SparseRows,
    all_distances,
    assign,
    exact_distances,
    totals,
)

GEOMETRIES = ["sphere", "euclidean"]


def matrix(n: int = 50, d: int = 7, seed: int = 0) -> Tensor:
    """Half of the cells are zero, and so is one whole row."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    x *= torch.rand(n, d, generator=generator) < 0.5
    x[n // 2] = 0
    return x


def sparse(x: Tensor, weight: Tensor | None = None) -> SparseRows:
    csr = sp.csr_array(x.numpy())
    crow, columns = (torch.from_numpy(p.astype(np.int64)) for p in (csr.indptr, csr.indices))
    return SparseRows(crow, columns, torch.from_numpy(csr.data), x.shape[1], weight)


def both(x: Tensor, weight: Tensor | None = None) -> list[Rows]:
    return [DenseRows(x, weight), sparse(x, weight)]


def centers_for(geometry: str, k: int = 4, d: int = 7) -> Tensor:
    centers = matrix(2 * k, d, seed=1)[:k]
    return torch.nn.functional.normalize(centers, dim=1) if geometry == "sphere" else centers


def by_hand(x: Tensor, centers: Tensor, geometry: str) -> Tensor:
    if geometry == "euclidean":
        return (x[:, None] - centers).square().sum(dim=2)
    lengths = x.norm(dim=1, keepdim=True)
    unit = torch.where(lengths > 0, x / lengths, 0)
    return 2 - 2 * unit @ centers.T  # 2 for a row of zeros, wherever the centre is


@pytest.mark.parametrize("kind", [0, 1], ids=["dense", "sparse"])
def test_the_seven_verbs_by_hand(kind: int) -> None:
    x, weight = matrix(), torch.rand(50, dtype=torch.float64)
    rows = both(x, weight)[kind]
    vectors = matrix(3, seed=2)
    labels, scale = torch.arange(50) % 4, torch.rand(50, dtype=torch.float64)
    index = torch.tensor([7, 3, 25, 3])
    assert rows.shape == (50, 7)
    torch.testing.assert_close(rows.length, x.norm(dim=1))
    torch.testing.assert_close(rows.products(vectors, 10, 30), x[10:30] @ vectors.T)
    torch.testing.assert_close(rows.products_by_vector(vectors, 10, 30), vectors @ x[10:30].T)
    wanted = torch.zeros(4, 7, dtype=torch.float64).index_add_(0, labels, x * scale[:, None])
    torch.testing.assert_close(rows.sums(labels, scale, 4), wanted)
    torch.testing.assert_close(rows.dense(index), x[index])
    taken = rows.take(index)
    torch.testing.assert_close(taken.dense(torch.arange(4)), x[index])
    torch.testing.assert_close(taken.weights(), weight[index])
    assert rows.inverse_length[25] == 0  # a row of zeros has no direction


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("k", [1, 5, 40])  # few clusters are searched by column, many by row
def test_nearest_centres_by_hand(geometry: str, k: int) -> None:
    x, centers = matrix(), centers_for(geometry, k)
    wanted = by_hand(x, centers, geometry)
    for rows in both(x):
        found = assign(rows, centers, geometry)
        torch.testing.assert_close(found.distances, wanted.amin(dim=1), atol=1e-12, rtol=1e-9)
        chosen = wanted.gather(1, found.labels[:, None])[:, 0]
        torch.testing.assert_close(chosen, wanted.amin(dim=1), atol=1e-12, rtol=1e-9)
        torch.testing.assert_close(
            all_distances(rows, centers, geometry), wanted, atol=1e-12, rtol=1e-9
        )


@pytest.mark.parametrize("k", [3, 40])
def test_a_tie_goes_to_the_first_centre(k: int) -> None:
    centers = torch.ones(k, 2)
    assert not assign(DenseRows(torch.rand(9, 2)), centers, "euclidean").labels.any()


@pytest.mark.parametrize("k", [3, 40])
def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, k: int) -> None:
    x = torch.randn(5000, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    centers = torch.randn(k, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    whole = assign(DenseRows(x), centers, "euclidean")
    sums = totals(DenseRows(x), whole.labels, k, "euclidean").sums
    monkeypatch.setattr(module, "SCORES_IN_CACHE", 64)
    monkeypatch.setattr(array_search, "SCORES_SEARCHED", 64)
    for rows in both(x):
        found = assign(rows, centers, "euclidean")
        assert torch.equal(found.labels, whole.labels)
        torch.testing.assert_close(found.distances, whole.distances)
        torch.testing.assert_close(totals(rows, found.labels, k, "euclidean").sums, sums)


def test_what_is_only_rounding_is_no_distance() -> None:
    x = torch.randn(200, 30, generator=torch.Generator().manual_seed(0))
    centers = torch.nn.functional.normalize(x, dim=1)
    assert not exact_distances(DenseRows(x), centers, "sphere").diagonal().any()
    assert not exact_distances(DenseRows(x), x, "euclidean").diagonal().any()
    apart = exact_distances(DenseRows(x), centers, "sphere")
    assert (apart > 0).sum() == 200 * 199


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=12), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_a_weight_is_a_repetition(geometry: str, counts: list[int], seed: int) -> None:
    x = matrix(len(counts), seed=seed)
    labels, weight = torch.arange(len(counts)) % 2, torch.tensor(counts, dtype=torch.float64)
    repeated = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    for weighted, plain in zip(both(x, weight), both(x[repeated]), strict=True):
        ours = totals(weighted, labels, 2, geometry)
        theirs = totals(plain, labels[repeated], 2, geometry)
        torch.testing.assert_close(ours.sums, theirs.sums)
        torch.testing.assert_close(ours.counts, theirs.counts)


@pytest.mark.parametrize("k", [8, 40])
def test_long_sums_and_counts_lose_nothing_in_float32(k: int) -> None:
    n = 2_000_000
    rows = DenseRows(torch.full((n, 1), 0.1), torch.full((n,), 0.1))
    part = totals(rows, torch.arange(n) % k, k, "euclidean")
    assert float(part.counts.sum()) == pytest.approx(0.1 * n, rel=1e-6)
    assert float((part.sums[:, 0] / part.counts).max()) == pytest.approx(0.1, rel=1e-4)


def test_distances_of_far_clusters_keep_their_digits_in_float32() -> None:
    x = 1e4 + 0.1 * torch.randn(500, 3, generator=torch.Generator().manual_seed(0))
    centers = torch.stack([x.mean(dim=0), -x.mean(dim=0)])
    for rows in both(x):
        found = assign(rows, centers, "euclidean")
        exact = (x.double() - centers[0].double()).square().sum(dim=1)
        torch.testing.assert_close(found.distances.double(), exact, rtol=1e-3, atol=1e-6)


def pairs(gap: float, n: int = 400) -> tuple[Tensor, Tensor]:
    """Float32 rows around four centres: two at x = −1000 and two at x = 1000, `gap` apart."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.tensor([[-1000.0, 0], [-1000, gap], [1000, 0], [1000, gap]])
    spread = 0.05 * gap * torch.randn(n, 2, generator=generator)
    return centers[torch.arange(n) % 4] + spread, centers


@pytest.mark.parametrize("gap", [1.0, 0.1])
def test_close_centres_far_out_are_told_apart_in_float32(gap: float) -> None:
    x, centers = pairs(gap)
    wanted = by_hand(x.double(), centers.double(), "euclidean")
    for rows in both(x):
        found = assign(rows, centers, "euclidean")
        assert torch.equal(found.labels, wanted.argmin(dim=1))
        exact = exact_distances(rows, centers, "euclidean")
        torch.testing.assert_close(exact, wanted.float(), rtol=1e-5, atol=0)
        assert torch.equal(exact.argmin(dim=1), found.labels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [1e-4, 1e-2, 0.1, 1.0])
def test_exact_distances_are_right_at_every_scale(spread: float, dtype: torch.dtype) -> None:
    x = (1 + spread * matrix(300, 6)).to(dtype)
    centers = (1 + spread * matrix(5, 6, seed=1)).to(dtype)
    wanted = by_hand(x.double(), centers.double(), "euclidean").to(dtype)
    for rows in both(x):
        torch.testing.assert_close(
            exact_distances(rows, centers, "euclidean"), wanted, atol=1e-15, rtol=5e-5
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_label_is_the_smallest_exact_distance_even_where_rounding_decides(
    dtype: torch.dtype,
) -> None:
    x = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[:, 0] = 0  # as far from the one centre as from the other, but for rounding
    direction = torch.tensor([[1.0, 0.0, 0.0]]).to(dtype)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(1)))[0]
    x, centers = x @ turn.to(dtype), torch.cat([direction, -direction]) @ turn.to(dtype)
    labels = assign(DenseRows(x), centers, "euclidean").labels
    exact = exact_distances(DenseRows(x), centers, "euclidean")
    assert 0 < labels.sum() < len(labels)
    assert torch.equal(exact.gather(1, labels[:, None])[:, 0], exact.amin(dim=1))


def test_wide_sparse_rows_on_their_centres_are_made_dense_in_small_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = sp.random_array((4, 20_000), density=0.001, rng=0, dtype=np.float32).tocsr()
    x = sparse(torch.from_numpy(base.toarray()))
    rows, most, dense = x.take(torch.arange(2000) % 4), [0], SparseRows.dense

    def record(self: SparseRows, index: Tensor) -> Tensor:
        most.append(len(index) * self.n_features)
        return dense(self, index)

    monkeypatch.setattr(SparseRows, "dense", record)
    centers = torch.from_numpy(base.toarray())
    found = assign(rows, centers, "euclidean")
    assert torch.equal(found.labels, torch.arange(2000) % 4)
    assert not found.distances.any()
    assert not exact_distances(rows, centers, "euclidean").amin(dim=1).any()
    assert 0 < max(most) <= 1 << 22


@pytest.mark.parametrize("k", [3, 16, 17, 32, 33])
@pytest.mark.parametrize("d", [2, array_search.LONG - 1, array_search.LONG, 100])
def test_sums_by_product_and_by_row_are_the_sums(k: int, d: int) -> None:
    generator = torch.Generator().manual_seed(k * d)
    x = torch.randn(70_000 if d == 2 else 3000, d, generator=generator, dtype=torch.float64)
    labels = torch.randint(k, (len(x),), generator=generator)
    coefficients = torch.rand(len(x), generator=generator, dtype=torch.float64)
    wanted = torch.zeros(k, d, dtype=torch.float64)
    wanted.index_put_((labels,), coefficients[:, None] * x, accumulate=True)
    torch.testing.assert_close(DenseRows(x).sums(labels, coefficients, k), wanted)
