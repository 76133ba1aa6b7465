"""A few kills at random moments; `make attack` does hundreds."""

from __future__ import annotations

import sys

import pytest

from .kills import kill_all


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("name", ["update", "compare", "predict"])
def test_a_killed_command_loses_and_leaves_nothing(name: str) -> None:
    summary = kill_all([name], kills=2, seed=0, most=2)
    assert summary["problems"] == {}
    assert sum(summary["kills"].values()) == 2
