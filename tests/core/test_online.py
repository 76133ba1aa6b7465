"""A stream of batches: the step by hand, memory, revival of idle centres, and the watch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch import Tensor

from tell.core.assignment import DenseRows, Totals
from tell.core.engine import fit_centers
from tell.core.online import BASELINE_ROWS, StreamState, Watch, step, stream_state

DIGITS = torch.from_numpy(load_digits().data)


def state(centers: list[list[float]], sums: list[list[float]], counts: list[float]) -> StreamState:
    memory = Totals(torch.tensor(sums).double(), torch.tensor(counts).double())
    return StreamState(torch.tensor(centers), memory, memory.counts.clone(), sum(counts), 1e9)


def batch(*rows: list[float], weight: list[float] | None = None) -> DenseRows:
    return DenseRows(torch.tensor(rows), None if weight is None else torch.tensor(weight))


# --- the step ----------------------------------------------------------------------------------


def test_step_on_the_sphere_by_hand() -> None:
    before = state([[1.0, 0.0], [0.0, 1.0]], [[3.0, 0.0], [0.0, 5.0]], [3.0, 5.0])
    after, record, _ = step(before, batch([2.0, 1.5]), "sphere", None)  # the unit vector (0.8, 0.6)
    torch.testing.assert_close(
        after.centers, torch.nn.functional.normalize(torch.tensor([[3.8, 0.6], [0.0, 5.0]]), dim=1)
    )
    assert after.memory.counts.tolist() == [4, 5]
    torch.testing.assert_close(after.lengths, torch.tensor([5.5, 5.0]).double())
    assert (record["rows"], record["seen"], record["revived"]) == (1, 9, 0)
    assert record["loss"] == pytest.approx(0.4)
    assert record["movement"] > 0
    assert before.centers.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_euclidean_step_is_the_running_mean() -> None:
    before = state([[1.0], [10.0]], [[2.0], [30.0]], [2.0, 3.0])
    after, record, _ = step(before, batch([4.0], [3.0], weight=[2.0, 1.0]), "euclidean", None)
    torch.testing.assert_close(after.centers, torch.tensor([[13.0 / 5], [10.0]]))
    assert record["rows"] == 3
    assert record["loss"] == pytest.approx((2 * 9 + 4) / 3)


def test_half_life_halves_what_came_before() -> None:
    before = state([[1.0], [10.0]], [[8.0], [40.0]], [8.0, 4.0])
    after, _, _ = step(before, batch([3.0], [3.0]), "euclidean", 2.0)
    assert after.memory.counts.tolist() == [6, 2]
    torch.testing.assert_close(after.centers, torch.tensor([[10.0 / 6], [10.0]]))


def test_a_forgotten_centre_stays_where_it_is() -> None:
    now = state([[0.6, 0.8], [0.0, -1.0]], [[0.6, 0.8], [0.0, -1.0]], [1.0, 1.0])
    for _ in range(100):
        now, _, _ = step(now, batch([0.0, -1.0]), "sphere", 1.0)
    assert now.centers.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, -1.0]]


def test_counts_do_not_stand_still_after_many_rows() -> None:
    many = 2.0**24  # the last whole number that float32 can count to
    before = state([[1.0], [9.0]], [[many], [9.0]], [many, 1.0])
    after, _, _ = step(before, batch([1.0]), "euclidean", None)
    assert after.memory.counts[0] == many + 1


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8))
@settings(max_examples=20, deadline=None)
def test_memory_is_the_sum_of_all_rows_however_they_are_cut(sizes: list[int]) -> None:
    x = DIGITS[: sum(sizes)]
    fitted = fit_centers(DenseRows(DIGITS), 10)
    now = stream_state(fitted)
    start = now.memory
    for part in x.split(sizes):
        now, _, _ = step(now, DenseRows(part), "euclidean", None)
    torch.testing.assert_close(now.memory.sums.sum(0), start.sums.sum(0) + x.sum(0))
    assert now.memory.counts.sum() == start.counts.sum() + len(x)
    assert now.seen == len(DIGITS) + len(x)


def test_state_after_a_fit_weighs_all_rows() -> None:
    x = torch.rand(50_000, 3, generator=torch.Generator().manual_seed(0))
    fitted = fit_centers(DenseRows(x), 4, geometry="euclidean")
    now = stream_state(fitted)
    assert now.memory.counts.sum() == now.seen == 50_000
    means = now.memory.sums / now.memory.counts[:, None]
    torch.testing.assert_close(means.float(), fitted.centers, rtol=0.01, atol=0.01)


def test_an_idle_centre_moves_to_the_worst_served_row() -> None:
    before = state([[0.0, 1.0], [0.0, -1.0]], [[0.0, 500.0], [0.0, -0.1]], [500.0, 0.1])
    before = StreamState(before.centers, before.memory, before.lengths, 500.0, 0.0)
    rows = batch([0.1, 1.0], [3.0, 1.0], [0.0, 0.0])  # the last has no direction to go to
    after, record, _ = step(before, rows, "sphere", None)
    assert record["revived"] == 1
    torch.testing.assert_close(
        after.centers[1], torch.nn.functional.normalize(torch.tensor([3.0, 1.0]), dim=0)
    )
    assert after.memory.counts[1] == 1
    assert after.revived_at == after.seen


# --- the watch ---------------------------------------------------------------------------------


def losses(n: int, mean: float = 1.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return mean * (1 + 0.3 * torch.randn(n, generator=generator, dtype=torch.float64))


@pytest.mark.parametrize("size", [1, 7, 400])
def test_baseline_is_mean_and_deviation_of_the_first_rows(size: int) -> None:
    x = losses(BASELINE_ROWS)
    watch = Watch()
    for part in x.split(size):
        watch = watch.after(part)
    assert watch.rows == BASELINE_ROWS
    assert watch.mean == pytest.approx(float(x.mean()))
    assert watch.deviation == pytest.approx(float(x.std(correction=0)))
    assert watch.far == pytest.approx(watch.mean + 3 * watch.deviation)


def test_no_row_is_far_before_the_baseline_stands() -> None:
    assert math.isinf(Watch().after(losses(10)).far)


def test_baseline_of_a_fit_expects_what_new_rows_will_lose() -> None:
    watch = Watch.over(losses(200), 10)
    assert watch.mean == pytest.approx(float(losses(200).mean()) * 210 / 190)
    assert watch.deviation == pytest.approx(float(losses(200).std(correction=0)) * 210 / 190)
    assert Watch.over(losses(80), 10) == Watch()  # so few rows tell nothing


@pytest.mark.parametrize("size", [1, 20, 500])
def test_watch_sees_a_rise_and_its_end(size: int) -> None:
    watch = Watch.over(losses(2000), 10)
    for part in losses(3000, seed=1).split(size):
        watch = watch.after(part)
        assert not watch.drifting
    for part in losses(3000, mean=1.5, seed=2).split(size):
        watch = watch.after(part)
    assert watch.drifting
    for part in losses(6000, seed=3).split(size):
        watch = watch.after(part)
    assert not watch.drifting


def test_ordinary_rows_rarely_look_like_drift() -> None:
    alarms = 0
    for seed in range(100):
        watch = Watch.over(losses(200, seed=seed), 4)
        for part in losses(2000, seed=1000 + seed).split(10):
            watch = watch.after(part)
            alarms += watch.drifting
    assert alarms == 0


def test_a_revived_centre_has_the_length_of_its_row_whatever_its_weight() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.tensor([[1.0, 0, 0], [0, 1.0, 0]]).repeat(50, 1)
    now = stream_state(fit_centers(DenseRows(x), 2, seed=0))
    for _ in range(60):
        rows = 3 * x[:1] + 0.01 * torch.randn(20, 3, generator=random)
        now, record, _ = step(now, DenseRows(rows, torch.full((20,), 7.0)), "sphere", 200.0)
        if record["revived"]:
            break
    assert record["revived"]
    lengths = now.lengths / now.memory.counts
    assert float(lengths.min()) == pytest.approx(3, rel=0.05)
    assert float(lengths.max()) == pytest.approx(3, rel=0.05)


def test_a_weight_is_a_repetition_for_the_watch() -> None:
    few, counts = losses(40), torch.arange(40) % 3 + 1
    for start in (Watch(), Watch.over(losses(200), 10)):
        weighted = start.after(few, counts.double())
        repeated = start.after(few.repeat_interleave(counts).double())
        for name in ("rows", "mean", "squares", "running", "watched"):
            assert getattr(weighted, name) == pytest.approx(getattr(repeated, name)), name


def test_a_baseline_of_no_rows_does_not_stand() -> None:
    watch = Watch(fitted=True)
    assert not watch.stands
    assert watch.after(torch.ones(4)).mean == 1.0
