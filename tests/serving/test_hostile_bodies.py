"""No body brings the service down, makes it tell what it must not, or harms the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.serving.conftest import flower_table, shop_table
from tests.serving.hostile_bodies import attack

import tell


@pytest.mark.parametrize("name", ["flowers", "shop"])
def test_no_body_is_answered_with_a_mistake(folder: Callable[[str], Path], name: str) -> None:
    place = folder(name)
    codes, wrong = attack(place, 1200, seed=0)
    assert wrong == []
    assert sum(codes.values()) == 1200
    assert {200, 400, 415, 422} <= set(codes)
    # Whatever was learned, the model is whole and answers.
    table = flower_table() if name == "flowers" else shop_table()
    assert len(tell.load(place).predict(table)) == len(table)
