"""How much memory the rows of a file may take: one limit, which users can set."""

from __future__ import annotations

import re
from typing import Any

from tell.exceptions import ParameterError

#: Rows of files, and what fitting them needs per row, stay below this unless a user says otherwise.
DEFAULT_MEMORY = "1GiB"

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_LEAST = 1 << 20


def as_bytes(memory: Any) -> int:
    """Read an amount of memory.

    Parameters
    ----------
    memory : int or str
        Bytes, or a number with a unit: "500MB" (10⁶), "2GB" (10⁹), "1GiB" (2³⁰).

    Examples
    --------
    >>> as_bytes("2GB"), as_bytes("1.5 GiB"), as_bytes(1 << 30)
    (2000000000, 1610612736, 1073741824)
    """
    found = _AMOUNT.fullmatch(str(memory))
    if isinstance(memory, bool) or found is None:
        raise ParameterError(
            f"memory must be a number of bytes or a text such as '500MB' or '2GB', got {memory!r}"
        )
    number, unit, binary = found.groups()
    amount = int(float(number) * (_BINARY if binary else _UNITS)[unit.lower()])
    if amount < _LEAST:
        raise ParameterError(f"memory must be at least 1 MiB, got {memory!r}; pass such as '500MB'")
    return amount
