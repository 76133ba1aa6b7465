"""A sweep finds for each number what a fit of its own would find."""

import itertools

import numpy as np
import torch

from tell.core.assignment import DenseRows
from tell.core.engine import fit_centers
from tell.core.seeding import merge, split
from tell.core.sweep import sweep


def blobs(k: int, n: int = 600, d: int = 5) -> DenseRows:
    random = np.random.default_rng(k)
    centers = 12 * random.normal(size=(k, d))
    rows = centers[random.integers(0, k, n)] + random.normal(size=(n, d))
    return DenseRows(torch.from_numpy(rows - rows.mean(axis=0)))


def test_losses_fall_and_equal_those_of_separate_fits():
    rows = blobs(7)
    found = sweep(rows, range(1, 13), "euclidean")
    losses = [found[k].loss for k in range(1, 13)]
    assert all(after < before for before, after in itertools.pairwise(losses))
    for k in (1, 7):
        alone = fit_centers(rows, k, geometry="euclidean", n_init=3)
        assert np.isclose(found[k].loss, alone.loss, rtol=1e-3)


def test_numbers_may_be_skipped():
    rows = blobs(6)
    dense, few = sweep(rows, range(1, 9), "euclidean"), sweep(rows, [1, 3, 6, 8], "euclidean")
    assert list(few) == [1, 3, 6, 8]
    assert [len(few[k].centers) for k in few] == [1, 3, 6, 8]
    assert np.isclose(few[6].loss, dense[6].loss, rtol=1e-3)


def test_the_way_down_mends_what_the_way_up_has_cut(monkeypatch):
    """On the way up a centre is added where it does nothing; the way down must remove that one."""
    from tell.core import sweep as module

    def beside(rows, centers, count, geometry, generator):
        if len(centers) == 1:  # two centres in the middle of nothing
            return torch.cat([centers, centers + 1e-3])
        return split(rows, centers, count, geometry, generator)

    rows = blobs(4)
    monkeypatch.setattr(module, "split", beside)
    found = sweep(rows, range(1, 7), "euclidean")
    best = fit_centers(rows, 4, geometry="euclidean", n_init=5)
    assert np.isclose(found[4].loss, best.loss, rtol=1e-3)


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
