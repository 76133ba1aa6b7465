"""The cells of an Arrow column as numbers, texts, truth values or days; gaps by any usual name."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

#: What people and programs write where a value is missing, in lower case. "none" is not among them:
#: a membership of none is a value, and only a program writes "None".
GAPS = (
    "", "-", "--", "?", ".", "na", "n/a", "n.a.", "n.a", "#n/a", "#na", "<na>", "nan", "-nan",
    "null", "#null!", "#wert!", "#value!", "#div/0!", "nat",
)  # fmt: skip
#: Pairs of words that are truth values, the true one first.
TRUTHS = (
    ("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("on", "off"), ("ja", "nein"),
    ("j", "n"), ("oui", "non"), ("si", "no"), ("sí", "no"), ("sim", "não"), ("wahr", "falsch"),
    ("vrai", "faux"),
)  # fmt: skip
_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%dT%H:%M:%S",
          "%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ",
          "%Y-%m-%d %H:%M")  # fmt: skip
_DAY = 86400.0
_PYTHONS = "None"


@lru_cache
def _words(*texts: str) -> Any:
    return as_cells(np.array(texts))


def as_cells(values: NDArray[Any]) -> pa.Array:
    """A column of Arrow with the numbers or texts of an array (n,).

    `pyarrow.array` gives the same, but first loads pandas, where it is installed, to see whether
    it was given a series, and so do its scalars; a short command would wait for that longer than
    for its rows.

    >>> as_cells(np.array(["a", "über"])).to_pylist(), as_cells(np.arange(2)).type
    (['a', 'über'], DataType(int64))
    """
    import pyarrow as pa

    values = np.ascontiguousarray(values)
    if values.dtype.kind in "iuf" and values.dtype.isnative:
        kind = pa.from_numpy_dtype(values.dtype)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    if values.dtype.kind != "U":
        return pa.array(values)
    texts = [text.encode() for text in values.tolist()]
    ends = np.cumsum([0, *map(len, texts)])
    if ends[-1] > np.iinfo(np.int32).max:
        return pa.array(values)
    places = pa.py_buffer(ends.astype(np.int32))
    return pa.StringArray.from_buffers(len(texts), places, pa.py_buffer(b"".join(texts)))


def as_array(cells: pa.Array) -> NDArray[Any]:
    """The values of a column (n,), with NaN for gaps among numbers.

    As `cells.to_numpy(zero_copy_only=False)`, which loads pandas, too, and is left to texts.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type)):
        return np.asarray(cells.to_numpy(zero_copy_only=False))
    if cells.null_count:
        whole = cells.cast(pa.float64()) if pa.types.is_integer(cells.type) else cells
        kind = np.dtype(whole.type.to_pandas_dtype())
        cells = pc.fill_null(whole, as_cells(np.array([np.nan], kind))[0])
    return np.from_dlpack(cells)


def gap_spellings() -> list[str]:
    """All spellings of a gap that a reader which knows no lower case should look for."""
    forms = {form for gap in GAPS for form in (gap, gap.upper(), gap.capitalize())}
    return sorted(forms | {"NaN", _PYTHONS})


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

    if not is_numeric(cells):
        cells = text_array(cells)
    try:
        numbers = cells.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return as_array(numbers)


def as_texts(cells: pa.Array) -> NDArray[Any]:
    """Return cells as text, with an empty text for gaps."""
    import pyarrow.compute as pc

    texts = pc.fill_null(text_array(cells), _words("")[0])
    return np.asarray(texts.to_numpy(zero_copy_only=False), dtype=object)


def is_number(text: str) -> bool:
    """Tell whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def plain_number(text: str) -> str:
    """A number as its shortest text, whoever wrote it: of 1, 1.0 and "1" there is one.

    >>> plain_number("1.0"), plain_number("2.50"), plain_number("x")
    ('1', '2.5', 'x')
    """
    if not is_number(text):
        return text
    value = float(text)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def as_days(cells: pa.Array, pattern: str | None) -> NDArray[np.float64] | None:
    """Dates as days since 1970 with NaN for gaps, or None if a cell is no date of this pattern."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_date(cells.type) or pa.types.is_timestamp(cells.type):
        stamps = cells.cast(pa.timestamp("us"), safe=False)
    elif pattern is None or is_numeric(cells):
        return None
    else:
        texts = text_array(cells)
        stamps = pc.strptime(texts, format=pattern, unit="us", error_is_null=True)
        if stamps.null_count > texts.null_count:
            return None
    seconds: NDArray[np.float64] = as_array(stamps.cast(pa.int64()).cast(pa.float64())) / 1e6
    return seconds / _DAY


def is_dated(cells: pa.Array) -> bool:
    """Tell whether the column is one of dates by its type."""
    import pyarrow as pa

    return bool(pa.types.is_date(cells.type) or pa.types.is_timestamp(cells.type))


def date_patterns(cells: pa.Array) -> list[str]:
    """The ways of writing dates that all cells follow; none for other texts."""
    first = next((text for text in as_texts(cells) if text), "")
    if not (6 <= len(first) <= 25 and first[:1].isdigit()):
        return []
    return [pattern for pattern in _DATES if as_days(cells, pattern) is not None]


def text_array(cells: pa.Array) -> pa.Array:
    """Cells as trimmed text, with null for whatever means a gap."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    texts = cells.cast(pa.string())
    if is_numeric(cells):
        return texts
    texts = pc.utf8_trim_whitespace(texts)
    named = pc.is_in(pc.utf8_lower(texts), value_set=_words(*GAPS))
    gap = pc.or_(named, pc.is_in(texts, value_set=_words(_PYTHONS)))
    return pc.if_else(gap, pa.nulls(1, pa.string())[0], texts)
