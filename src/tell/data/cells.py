"""The cells of an Arrow column as numbers or as texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def is_numeric(cells: pa.Array) -> bool:
    """Tell whether the column is one of numbers by its type."""
    import pyarrow as pa

    kind = cells.type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )


def as_numbers(cells: pa.Array) -> NDArray[np.float64] | None:
    """Return cells as numbers with NaN for gaps, or None if one of them is text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_numeric(cells):
        texts = pc.utf8_trim_whitespace(_text_array(cells))
        cells = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    try:
        numbers = cells.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return cast(NDArray[np.float64], numbers.to_numpy(zero_copy_only=False))


def as_texts(cells: pa.Array) -> NDArray[Any]:
    """Return cells as text, with an empty text for gaps."""
    import pyarrow.compute as pc

    texts = pc.fill_null(pc.utf8_trim_whitespace(_text_array(cells)), "")
    return np.asarray(texts.to_numpy(zero_copy_only=False), dtype=object)


def first_text(cells: pa.Array) -> tuple[int, str]:
    """Find the first cell that is no number."""
    for row, text in enumerate(as_texts(cells)):
        try:
            float(text or "nan")
        except ValueError:
            return row, text
    return 0, str(cells[0])


def _text_array(cells: pa.Array) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    return cells.cast(pa.string())
