"""Amounts of memory as people write them."""

from __future__ import annotations

import pytest

from tell import TELL, DeepTELL
from tell.data.limits import as_bytes
from tell.exceptions import ParameterError


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1048576", 2**20),
        (2**21, 2**21),
        ("500MB", 500 * 10**6),
        ("1.5 gib", 3 * 2**29),
        ("2G", 2 * 10**9),
        ("64MiB", 2**26),
    ],
)
def test_amounts(text: int | str, amount: int) -> None:
    assert as_bytes(text) == amount


@pytest.mark.parametrize("wrong", ["much", "-1GB", "", True, None, 1000, "1GB of it", 0])
def test_what_is_no_amount(wrong: object) -> None:
    with pytest.raises(ParameterError, match="memory must be"):
        as_bytes(wrong)
    for model in (TELL(2, memory=wrong), DeepTELL(2, memory=wrong)):  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match="memory must be"):
            model.fit([[0.0, 1.0], [1.0, 0.0]])
