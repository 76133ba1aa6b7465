"""Columns of a file that were not clustered: read beside the rows, to describe clusters by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tell.exceptions import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NOT_A_TABLE = (
    "--profile and --id need a table with columns, that can be read twice, got {}; in Python, pass "
    "profile= and ids= to explain"
)


def read_beside(data: str, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The columns `names` (n,) of a table: numbers, days, or text; a gap is NaN, NaT or empty."""
    if not names:
        return {}
    from tell.data.sources import open_source
    from tell.data.table_preparation import held_table
    from tell.data.tables import TableSource

    source = open_source(data)
    if not isinstance(source, TableSource) or not source.rereadable:
        raise InputError(_NOT_A_TABLE.format(data))
    for name in names:
        if name not in source.available:
            known = ", ".join(source.available[:12])
            raise InputError(f"{data}: there is no column {name!r}; it has {known}")
    source.columns = list(dict.fromkeys(names))
    table = held_table(source).table
    return {name: _column(table.column(name).combine_chunks()) for name in source.columns}


def _column(cells: Any) -> NDArray[Any]:
    """Cells as what they are, as a preparation reads them."""
    from pyarrow import types

    from tell.data.cells import as_days, as_numbers, as_texts, date_patterns

    if (days := as_days(cells, next(iter(date_patterns(cells)), None))) is not None:
        return np.rint(days * 86400).astype("datetime64[s]")
    if not types.is_boolean(cells.type) and (numbers := as_numbers(cells)) is not None:
        whole = np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all()
        return numbers.astype(np.int64) if whole and (abs(numbers) < 1e15).all() else numbers
    return as_texts(cells)
