"""Batches: complete, seeded, resumable."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from tell.core.augment import Affine
from tell.core.batches import Batches


@given(n=st.integers(2, 40), batch_size=st.integers(2, 50), epoch=st.integers(0, 5))
def test_an_epoch_gives_every_row_once(n: int, batch_size: int, epoch: int) -> None:
    rows = Batches(torch.arange(float(n))[:, None], batch_size)
    batches = list(rows.epoch(epoch))
    seen = torch.cat([batch.row for batch in batches]).tolist()
    assert len(batches) == rows.steps
    assert len(set(seen)) == len(seen) >= n - 1  # a single left-over row waits for the next epoch
    assert all(bool((batch.x[:, 0].long() == batch.row).all()) for batch in batches)
    assert torch.cat(list(rows.in_order(7)))[:, 0].tolist() == list(range(n))


def test_last_batch_is_dropped_when_asked() -> None:
    rows = Batches(torch.zeros(10, 1), 4, drop_last=True)
    assert [len(batch.x) for batch in rows.epoch(0)] == [4, 4]


def test_epochs_can_be_entered_anywhere() -> None:
    rows = Batches(torch.rand(20, 1, 4, 4), 4, seed=3, augment=Affine())
    whole, rest = list(rows.epoch(2)), list(rows.epoch(2, start=3))
    for early, late in zip(whole[3:], rest, strict=True):
        assert torch.equal(early.row, late.row)
        assert torch.equal(early.moved, late.moved)
    assert not torch.equal(whole[0].row, next(rows.epoch(1)).row)


def test_every_row_has_one_of_its_partners_beside_it() -> None:
    x = torch.arange(20.0)[:, None]
    partners = (torch.arange(20)[:, None] + torch.tensor([1, 2])) % 20
    rows = Batches(x, 5, seed=1, partners=partners)
    steps = [(b.partner[:, 0] - b.x[:, 0]) % 20 for b in rows.epoch(0)]
    assert set(torch.cat(steps).tolist()) == {1.0, 2.0}  # now one, now the other
    again = [b.partner for b in rows.epoch(0, start=2)]
    assert torch.equal(again[0], list(rows.epoch(0))[2].partner)
    assert next(Batches(x, 5).epoch(0)).partner is None


def test_a_copy_of_a_row_moves_otherwise_than_the_row() -> None:
    x = torch.rand(6, 1, 8, 8)
    batch = next(Batches(x, 6, augment=Affine(), partners=torch.arange(6)[:, None]).epoch(0))
    assert not torch.equal(batch.moved, batch.partner)
    assert not torch.equal(batch.x, batch.partner)


def test_images_come_channels_last_with_their_values() -> None:
    x = torch.rand(6, 3, 4, 5)
    batch = next(Batches(x, 6).epoch(0))
    assert batch.x.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(batch.x, x[batch.row])
