"""A sweep finds for each number what a fit of its own would find."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from tell.core import sweep as module
from tell.core.assignment import DenseRows
from tell.core.engine import fit_centers
from tell.core.seeding import merge, split
from tell.core.sweep import losses, sweep


def blobs(k: int, n: int = 600, d: int = 5) -> Tensor:
    random = np.random.default_rng(k)
    centers = 12 * random.normal(size=(k, d))
    rows = centers[random.integers(0, k, n)] + random.normal(size=(n, d))
    return torch.from_numpy(rows - rows.mean(axis=0))


def directions(n: int = 600, d: int = 5) -> Tensor:
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(n, d)))
    x[:3] = 0  # rows without a direction
    return torch.nn.functional.normalize(x, dim=1)


def test_losses_fall_and_equal_those_of_separate_fits():
    x = blobs(7)
    found = sweep(x, range(1, 13), "euclidean")
    each = [found[k].loss for k in range(1, 13)]
    assert all(after < before for before, after in itertools.pairwise(each))
    for k in (1, 7):
        alone = fit_centers(DenseRows(x), k, geometry="euclidean", n_init=3)
        assert np.isclose(found[k].loss, alone.loss, rtol=1e-3)


@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_labels_and_losses_are_those_of_the_centres(geometry, dtype):
    """Only what has changed is computed anew: after many changes nothing may be out of date."""
    x = (blobs(7) if geometry == "euclidean" else directions()).to(dtype)
    for k, found in sweep(x, [1, 2, 3, 5, 6, 11, 12], geometry).items():
        apart = torch.cdist(x.double(), found.centers.double()).square()
        if geometry == "sphere":
            apart[:3] = 2  # Eq. 12 without a direction
        assert found.centers.shape == (k, 5)
        assert found.loss == pytest.approx(float(apart.amin(dim=1).mean()), rel=1e-5)
        own = apart.gather(1, found.labels[:, None])[:, 0]
        assert torch.allclose(own, apart.amin(dim=1), rtol=1e-5, atol=1e-5)
        assert len(found.labels.unique()) == k


def test_numbers_may_be_skipped():
    x = blobs(6)
    dense, few = sweep(x, range(1, 9), "euclidean"), sweep(x, [1, 3, 6, 8], "euclidean")
    assert list(few) == [1, 3, 6, 8]
    assert [len(few[k].centers) for k in few] == [1, 3, 6, 8]
    assert np.isclose(few[6].loss, dense[6].loss, rtol=1e-3)


def test_the_way_down_mends_what_the_way_up_has_cut(monkeypatch):
    """On the way up a centre is added where it does nothing; the way down must remove that one."""
    grow = module._Partition.grow

    def beside(self, count, generator):
        grow(self, count, generator)
        if count == 1 and len(self.centers) == 2:  # two centres in the middle of nothing
            self._place(torch.arange(2), torch.tensor([[0.0] * 5, [1e-3] * 5], dtype=torch.float64))

    x = blobs(4)
    monkeypatch.setattr(module._Partition, "grow", beside)
    found = sweep(x, range(1, 7), "euclidean")
    best = fit_centers(DenseRows(x), 4, geometry="euclidean", n_init=5)
    assert np.isclose(found[4].loss, best.loss, rtol=1e-3)


def test_equal_rows_leave_centres_without_rows():
    """Four different rows cannot have six clusters; all of them are served."""
    x = torch.eye(4, dtype=torch.float64).repeat(10, 1)
    found = sweep(x, range(1, 7), "euclidean")
    assert [found[k].loss for k in (4, 5, 6)] == pytest.approx([0, 0, 0], abs=1e-12)


@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
def test_the_way_down_alone_ends_as_low_without_groups(geometry):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(800, 6)))
    x = torch.nn.functional.normalize(x, dim=1) if geometry == "sphere" else x
    ks = [1, 2, 4, 8, 16]
    both = [[found.loss for found in sweep(x, ks, geometry, seed).values()] for seed in range(4)]
    alone = [losses(x, ks, geometry, seed) for seed in range(4)]
    assert np.mean(np.log(alone) - np.log(both)) < 0.01


def test_merging_gives_up_the_centre_that_is_missed_least():
    rows = DenseRows(torch.tensor([[0.0], [0.2], [5.0], [9.0]], dtype=torch.float64))
    centers = torch.tensor([[0.0], [0.2], [5.0], [9.0]], dtype=torch.float64)
    left = merge(rows, centers, 1, "euclidean")
    assert left[:, 0].tolist() in ([0.2, 5.0, 9.0], [0.0, 5.0, 9.0])
    assert sorted(merge(rows, left, 1, "euclidean")[:, 0].round().tolist())[0] == 0


def test_splitting_adds_a_centre_where_the_loss_is():
    rows = DenseRows(torch.tensor([[0.0]] * 10 + [[7.0]] * 5, dtype=torch.float64))
    generator = torch.Generator().manual_seed(0)
    more = split(rows, torch.zeros(1, 1, dtype=torch.float64), 1, "euclidean", generator)
    assert more[:, 0].tolist() == [0.0, 7.0]
