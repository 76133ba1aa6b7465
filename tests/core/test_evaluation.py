"""A row's answer does not depend on the rows around it, nor on the number of threads."""

import torch
from torch import nn

from tell.core.evaluation import EVALUATION_ROWS, in_blocks, one_thread


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 10)).eval()


def test_the_place_of_a_row_does_not_matter(threads: int) -> None:
    x = torch.rand(3 * EVALUATION_ROWS, 64, generator=torch.Generator().manual_seed(1))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(2))
    here, there = in_blocks(network(), x), in_blocks(network(), x[order])
    assert torch.equal(here[order], there)
    assert torch.get_num_threads() == threads


def test_threads_do_not_change_a_bit() -> None:
    x = torch.rand(2 * EVALUATION_ROWS + 17, 64, generator=torch.Generator().manual_seed(1))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = in_blocks(network(), x)
        torch.set_num_threads(1)
        one = in_blocks(network(), x)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one, two)
    assert not two.requires_grad


def test_the_number_of_threads_comes_back_after_an_error() -> None:
    before = torch.get_num_threads()
    try:
        with one_thread():
            raise ValueError("stop")
    except ValueError:
        pass
    assert torch.get_num_threads() == before
