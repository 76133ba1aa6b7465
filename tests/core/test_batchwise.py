"""The layer trained batch by batch ends where the closed-form steps end."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_blobs

from tell.core.assignment import DenseRows, SparseRows
from tell.core.batchwise import fit_batchwise
from tell.core.engine import fit_centers
from tell.exceptions import InputError

DIGITS = torch.from_numpy(load_digits().data).float()


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_both_ways_end_at_the_same_loss(geometry) -> None:
    rows = DenseRows(DIGITS - DIGITS.mean(0) if geometry == "euclidean" else DIGITS)
    steps = fit_centers(rows, 10, geometry=geometry, n_init=3, seed=0)
    layer = fit_batchwise(rows, 10, geometry=geometry, n_init=3, seed=0)
    assert layer.loss == pytest.approx(steps.loss, rel=0.01)
    assert layer.descent.converged
    own = layer.assignment.labels
    x, centers = rows.x.double(), layer.centers.double()
    if geometry == "sphere":
        x, centers = (torch.nn.functional.normalize(part, dim=1) for part in (x, centers))
    squared = (x - centers[own]).square().sum(1)
    assert layer.loss == pytest.approx(float(squared.mean()), rel=1e-5)


def test_the_same_seed_gives_the_same_bits() -> None:
    rows = DenseRows(DIGITS[:300])
    one, two = (fit_batchwise(rows, 4, seed=3, max_iter=20) for _ in range(2))
    assert torch.equal(one.centers, two.centers)
    assert one.n_iter == 20
    assert len(one.history) == 20


def test_weights_count_rows_as_often_as_they_say() -> None:
    X, y = make_blobs([100, 100, 100], 2, centers=[[9, 0], [0, 9], [-9, -9]], random_state=0)
    rows = torch.from_numpy(X)
    weight = torch.from_numpy(np.where(y == 2, 0.001, 1.0))
    fit = fit_batchwise(DenseRows(rows, weight), 2, geometry="euclidean", n_init=3, seed=0)
    heavy = torch.stack([rows[y == 0].mean(0), rows[y == 1].mean(0)])
    apart = torch.cdist(heavy, fit.centers).min(dim=1).values
    assert apart.max() < 0.5  # the light cloud has no centre of its own


def test_an_empty_cluster_is_revived() -> None:
    X, _ = make_blobs(400, 2, centers=[[9, 0], [0, 9], [-9, -9]], random_state=0)
    rows = DenseRows(torch.from_numpy(X))
    far = torch.tensor([[9.0, 0.0], [9.0, 0.1], [1000.0, 1000.0]], dtype=torch.float64)
    fit = fit_batchwise(rows, 3, init=far, geometry="euclidean", seed=0)
    assert fit.counts.min() > 100
    assert sum(line["revived"] for line in fit.history) >= 1


def test_sparse_rows_are_refused() -> None:
    sparse = SparseRows(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), 2)
    with pytest.raises(InputError, match="solver='sgd' needs dense rows"):
        fit_batchwise(sparse, 1)
