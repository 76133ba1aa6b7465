"""The step for small batches: the numbers of the general step, or none at all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from tell.core.array_search import SHORT, label_array
from tell.core.assignment import DenseRows, Totals
from tell.core.engine import fit_centers
from tell.core.layer import Geometry
from tell.core.online import StreamState, Watch, step, stream_state
from tell.core.radii import BINS, Radii
from tell.core.small_batches import MOST_ROWS, is_small, small_step

DIGITS = load_digits().data
GEOMETRIES: list[Geometry] = ["sphere", "euclidean"]


def fitted(geometry: Geometry, k: int, dtype: Any = np.float32) -> StreamState:
    x = torch.from_numpy(DIGITS.astype(dtype))
    fit = fit_centers(DenseRows(x), k, geometry=geometry, n_init=1)
    radii = Radii.measure(*fit.assignment, None, k)
    return replace(stream_state(fit), radii=radii)


STATES = {(geometry, k): fitted(geometry, k) for geometry in GEOMETRIES for k in (3, 10, 40)}


# --- by hand -----------------------------------------------------------------------------------


def by_hand(
    state: StreamState, x: np.ndarray, geometry: Geometry, half_life: float | None
) -> dict[str, Any]:
    """The step as the documentation describes it, row by row in float64."""
    centers = state.centers.numpy().astype(float)
    keep = 1.0 if half_life is None else 0.5 ** (len(x) / half_life)
    sums, counts, lengths = (part.numpy().copy() * keep for part in (*state.memory, state.lengths))
    labels, losses = [], []
    for row in x.astype(float):
        point = row / math.sqrt(sum(row**2)) if geometry == "sphere" else row
        apart = [float(((point - center) ** 2).sum()) for center in centers]
        labels.append(int(np.argmin(apart)))
        losses.append(min(apart))
        sums[labels[-1]] += point
        counts[labels[-1]] += 1
        lengths[labels[-1]] += math.sqrt(sum(row**2))
    moved = centers.copy()
    for j in set(labels):
        size = math.sqrt(sum(sums[j] ** 2)) if geometry == "sphere" else counts[j]
        moved[j] = sums[j] / size
    movement = math.sqrt(
        np.mean([((a - b) ** 2).sum() for a, b in zip(moved, centers, strict=True)])
    )
    return {
        "labels": labels,
        "centers": moved,
        "sums": sums,
        "counts": counts,
        "lengths": lengths,
        "loss": float(np.mean(losses)),
        "far_share": float(np.mean([loss > state.watch.far for loss in losses])),
        "movement": movement,
        "running_loss": float(np.mean(losses))
        + (state.watch.running - float(np.mean(losses))) * math.exp(-len(x) / 1000),
    }


@pytest.mark.parametrize("half_life", [None, 300.0])
@pytest.mark.parametrize("k", [3, 40])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_step_by_hand(geometry: Geometry, k: int, half_life: float | None) -> None:
    state, x = STATES[geometry, k], DIGITS[100:180].astype(np.float32)
    found = small_step(state, x, geometry, half_life)
    assert found is not None
    new, record, labels = found
    wanted = by_hand(state, x, geometry, half_life)
    assert labels.tolist() == wanted["labels"]
    np.testing.assert_allclose(new.centers, wanted["centers"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(new.memory.sums, wanted["sums"], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(new.memory.counts, wanted["counts"], rtol=1e-12)
    np.testing.assert_allclose(new.lengths, wanted["lengths"], rtol=1e-6)
    assert new.seen == state.seen + 80
    for name in ("loss", "far_share", "movement", "running_loss"):
        assert record[name] == pytest.approx(wanted[name], rel=1e-4, abs=1e-7), name


def test_distances_fall_into_bins_of_an_octaves_sixteenth() -> None:
    radii = Radii(torch.zeros(2, BINS).double(), torch.tensor([1.0, 4.0]).double())
    memory = Totals(torch.tensor([[0.0], [20.0]]).double(), torch.ones(2).double())
    state = StreamState(torch.tensor([[0.0], [20.0]]), memory, torch.ones(2).double(), 2.0, 1e9)
    x = np.array([[1.0], [2.0], [-2.0], [30.0]], np.float32)  # squared: 1, 4, 4 and 100 / 4 = 25
    found = small_step(replace(state, radii=radii), x, "euclidean", None)
    assert found is not None
    assert found[0].radii is not None
    counts = found[0].radii.counts
    assert counts[0, 6 * 16] == 1
    assert counts[0, 8 * 16] == 2
    assert counts[1, int((math.log2(25) + 6) * 16)] == 1
    assert counts.sum() == 4


# --- against the general step -------------------------------------------------------------------


def assert_same(geometry: Geometry, state: StreamState, x: np.ndarray, half_life: Any) -> None:
    """Same labels and counts; sums to the rounding of float32, in which terms are added up."""
    found = small_step(state, x, geometry, half_life)
    new, record, labels = step(state, DenseRows(torch.from_numpy(x)), geometry, half_life)
    if found is None:  # left to the general step
        return
    few, noted, own = found
    if not np.array_equal(own, labels.numpy()):  # but for ties
        pair = np.stack([own, labels.numpy()])[:, own != labels.numpy()]
        rows = x[own != labels.numpy()].astype(float)
        if geometry == "sphere":
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        apart = np.square(rows - state.centers.numpy()[pair]).sum(axis=2)
        np.testing.assert_allclose(apart[0], apart[1], rtol=1e-4, atol=1e-5)
        return
    scale = float(np.abs(x).max()) if geometry == "euclidean" else 1.0
    torch.testing.assert_close(few.centers, new.centers, rtol=1e-5, atol=1e-6 * scale)
    torch.testing.assert_close(few.memory.counts, new.memory.counts, rtol=1e-12, atol=0)
    torch.testing.assert_close(few.lengths, new.lengths, rtol=1e-6, atol=0)
    assert few.centers.dtype == new.centers.dtype
    assert (few.seen, few.revived_at) == (new.seen, new.revived_at)
    assert few.radii is not None
    assert new.radii is not None
    assert float((few.radii.counts - new.radii.counts).abs().sum()) <= 0.02 * len(x) + 2
    assert list(noted) == list(record)
    for name, value in record.items():
        assert noted[name] == pytest.approx(value, rel=1e-3, abs=1e-5 * scale**2), name


@given(
    st.sampled_from(GEOMETRIES),
    st.sampled_from([3, 10, 40]),
    st.integers(1, 700),
    st.integers(0, 2**31),
    st.sampled_from([None, 1.0, 300.0]),
    st.floats(-6, 6),
)
@settings(max_examples=60, deadline=None)
def test_small_and_general_step_agree(
    geometry: Geometry, k: int, n: int, seed: int, half_life: float | None, exponent: float
) -> None:
    random = np.random.default_rng(seed)
    x = DIGITS[random.integers(len(DIGITS), size=n)] + random.standard_normal((n, 64))
    x *= 10.0**exponent if geometry == "sphere" else 1.0
    assert_same(geometry, STATES[geometry, k], x.astype(np.float32), half_life)


@pytest.mark.parametrize("n", [1, SHORT, SHORT + 1, 4096])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_all_sizes_and_precisions(geometry: Geometry, dtype: Any, n: int) -> None:
    random = np.random.default_rng(n)
    x = (DIGITS[random.integers(len(DIGITS), size=n)] + random.random((n, 64))).astype(dtype)
    state = fitted(geometry, 10, dtype)
    assert is_small(x, state)
    assert_same(geometry, state, x, None)
    labels = label_array(x, state.centers.numpy(), geometry)
    found = small_step(state, x, geometry, None)
    assert labels is not None
    assert found is not None
    np.testing.assert_array_equal(labels, found[2])


def test_an_idle_centre_moves_as_in_the_general_step() -> None:
    state = STATES["sphere", 10]
    counts = state.memory.counts.clone()
    counts[4] = 0.1
    idle = replace(state, memory=Totals(state.memory.sums, counts), revived_at=0.0, seen=1e6)
    x = DIGITS[:50].astype(np.float32) + 1
    x = x[np.asarray(step(idle, DenseRows(torch.from_numpy(x)), "sphere", None)[2]) != 4]
    found = small_step(idle, x, "sphere", None)
    assert found is not None
    assert found[1]["revived"] == 1
    assert_same("sphere", idle, x, None)


def test_a_centre_whose_rows_cancel_stays() -> None:
    memory = Totals(torch.tensor([[-1.0, 0.0]]).double(), torch.tensor([1.0]).double())
    state = StreamState(torch.tensor([[1.0, 0.0]]), memory, torch.ones(1).double(), 1.0, 1e9)
    found = small_step(state, np.array([[3.0, 0.0]], np.float32), "sphere", None)
    assert found is not None
    assert found[0].centers.tolist() == state.centers.tolist()
    assert found[0].memory.counts.tolist() == [2.0]


def test_the_state_before_stays_as_it_is() -> None:
    state = STATES["euclidean", 10]
    parts = (state.centers, *state.memory, state.lengths, state.radii.counts)  # type: ignore[union-attr]
    before = [part.clone() for part in parts]
    small_step(state, DIGITS[:99].astype(np.float32), "euclidean", 50.0)
    assert all(torch.equal(part, copy) for part, copy in zip(parts, before, strict=True))


# --- what it leaves to the general step ---------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30, 1e19])
def test_what_is_not_usual_is_left(geometry: Geometry, bad: float) -> None:
    x = DIGITS[:20].astype(np.float32)
    x[7, 3] = bad
    state = STATES[geometry, 10]
    assert small_step(state, x, geometry, None) is None
    assert label_array(x, state.centers.numpy(), geometry) is None


def test_rows_without_length_and_lost_digits_are_left() -> None:
    assert small_step(STATES["sphere", 3], np.zeros((2, 64), np.float32), "sphere", None) is None
    state = STATES["euclidean", 10]
    on_top = state.centers.numpy()[[1]] * (1 + 1e-6)
    assert small_step(state, on_top, "euclidean", None) is None
    assert label_array(on_top, state.centers.numpy(), "euclidean") is None


def test_what_is_small() -> None:
    state = STATES["sphere", 10]
    x = np.zeros((MOST_ROWS, 64), np.float32)
    assert is_small(x, state)
    assert not is_small(np.zeros((MOST_ROWS + 1, 64), np.float32), state)
    assert not is_small(np.zeros((MOST_ROWS, 4096), np.float32)[:, :], fitted_wide())
    assert not is_small([[1.0]], state)
    assert not is_small(x, replace(state, seen=2.0**61))


def fitted_wide() -> StreamState:
    memory = Totals(torch.ones(2, 4096).double(), torch.ones(2).double())
    return StreamState(torch.ones(2, 4096), memory, torch.ones(2).double(), 1.0, 0.0, Watch())


def test_read_only_rows_are_fine() -> None:
    x = np.repeat(DIGITS[:1000], 4, axis=0).astype(np.float32)
    x.flags.writeable = False
    assert small_step(STATES["sphere", 10], x, "sphere", None) is not None
