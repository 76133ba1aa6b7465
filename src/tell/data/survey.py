"""Look at a whole table once and decide what each column is and how it becomes numbers."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tell.data.cells import (
    TRUTHS,
    as_days,
    as_numbers,
    as_texts,
    date_patterns,
    is_dated,
    is_number,
    is_numeric,
    plain_number,
)
from tell.data.chunks import FloatArray
from tell.data.preparation import Column, Complaints, Preparation, _date_parts, as_one
from tell.data.tables import TableSource
from tell.exceptions import InputError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

Gaps = Literal["fill", "drop"]
ScalingRule = Literal["auto", "standard", "none"]
Encoding = Literal["weighted", "standard"]
#: What a user may say a column is to be.
Wish = Literal["number", "log", "robust", "plain", "category", "boolean", "date", "drop"]

# A column with more different texts is a name or a number plate, not a category.
MAX_CATEGORIES = 100
FEW_CATEGORIES = 10  # so few texts are a category even where each stands once
ROWS_PER_CATEGORY = 2
# Values of a column that its median, moments and quartiles are taken from: all, up to this many.
MOST_VALUES = 1 << 18
MOST_CELLS = 1 << 23
# A logarithm is taken where it brings a clear skewness down to a small part of it.
SKEWED, STRAIGHTENED, MOST_ZEROS = 2.0, 0.25, 0.1
# Quartiles instead of moments where few cells make the deviation so much larger than the middle is.
HEAVY_TAILS = 5.0
# The logarithm serves better where it makes the tail about as light as that of a normal column.
LIGHT_TAILS = 2.0
# A cell so many spreads away is a mistake: no scaling leaves both it and the others visible.
ABSURD = 1e9
_NORMAL_QUARTILES = 1.3489795003921634  # between the quartiles of a normal distribution
_ID_NAME = re.compile(r"(^|[_\W])(id|ids|uuid|guid|key|index|rowid|row|nr|no|number)$|^$", re.I)
_MIN_IDS = 20  # rows from which "every row its own" says something


def learn(
    source: TableSource,
    *,
    types: Mapping[str, str] | None = None,
    gaps: Gaps = "fill",
    scaling: ScalingRule = "auto",
    encoding: Encoding = "weighted",
) -> Preparation:
    """Read `source` once and decide what to do with each of its columns.

    Parameters
    ----------
    source : TableSource
        CSV cells are looked at as text: a column is one of numbers if all its cells are.
    types : dict of str to str, optional
        What columns are to be, whatever they look like: see `Wish`.
    gaps : {"fill", "drop"}, default="fill"
        A gap gets the column's median or most common text, or its row is left out.
    scaling : {"auto", "standard", "none"}, default="auto"
        How numbers are weighed: "standard" divides by the deviation; "auto" does the same but
        takes logarithms or quartiles of columns for which that is clearly better.
    encoding : {"weighted", "standard"}, default="weighted"
        How categories are weighed: a whole category like one standardised number, or each of
        its 0/1 features like one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from tell.data.tables import ArrowSource
    >>> from tell.data.chunks import Choice
    >>> table = pa.table({"age": [31, None, 45], "city": ["Ulm", "Ulm", "Bonn"]})
    >>> source = ArrowSource(table, Choice(), chunk_rows=2)
    >>> preparation = learn(source)
    >>> preparation.apply(source).read().X.tolist()
    [[31.0, 0.0, 1.0], [38.0, 0.0, 1.0], [45.0, 1.0, 0.0]]
    """
    wishes = check_types(types, source.columns, source.name)
    most = max(2048, min(MOST_VALUES, MOST_CELLS // max(1, len(source.columns))))
    columns = {column: _Seen(column, place, most) for place, column in enumerate(source.columns)}

    def look(rows: pa.RecordBatch, name: str, start: int) -> FloatArray:
        for column, seen in columns.items():
            if wishes.get(column) != "drop":
                seen.add(rows.column(column), start, name)
        return np.empty((rows.num_rows, 0))

    decoder, source.decoder = source.decoder, look
    try:
        for _ in source.chunks():
            pass
    finally:
        source.decoder = decoder
    complaints = [what for seen in columns.values() for what in seen.complaints]
    rules: list[Column] = []
    for column, seen in columns.items():
        try:
            rules.append(seen.rule(wishes.get(column), scaling, encoding, source.name))
        except InputError as error:
            complaints.append(str(error))
    if complaints:
        raise InputError(as_one(complaints))
    if gaps == "drop":
        rules = [replace(rule, fill=None) for rule in rules]
    return _checked(Preparation(tuple(rules), drops_rows=gaps == "drop"), source.name)


def check_types(types: Mapping[str, str] | None, columns: list[str], name: str) -> dict[str, str]:
    """Refuse wishes for columns that are not there, and wishes that nobody knows."""
    wishes = {str(column): str(wish) for column, wish in (types or {}).items()}
    for column, wish in wishes.items():
        if wish not in get_args(Wish):
            raise ParameterError(
                f"the type of column {column!r} must be one of {', '.join(get_args(Wish))}, got "
                f"{wish!r}"
            )
        if column not in columns:
            near = difflib.get_close_matches(column, columns, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"{name}: a type is given for column {column!r}, there is none{hint}")
    return wishes


def _checked(preparation: Preparation, name: str) -> Preparation:
    if not preparation.feature_names:
        told = "; ".join(f"{column.name!r}: {column.note}" for column in preparation.columns[:12])
        raise InputError(
            f"{name}: no column is left to cluster ({told}); say what one is with types= or "
            "--column NAME:category"
        )
    return preparation


class _Seen:
    """What has been seen of one column so far."""

    def __init__(self, name: str, place: int, most: int) -> None:
        self.name, self.most = name, most
        self.rows = self.gaps = 0
        self.values: NDArray[np.float64] = np.empty(0)  # a uniform sample of the numbers or days
        self.held = 0
        self.texts: Counter[str] = Counter()
        self.unspaced = True
        self.all_numbers = self.all_days = True
        self.typed_truth = self.typed_number = False
        self.patterns: list[str] | None = None
        self.complaints: list[str] = []
        self._random = np.random.default_rng(place)

    def add(self, cells: pa.Array, start: int, file: str) -> None:
        import pyarrow as pa

        self.rows += len(cells)
        numbers = as_numbers(cells) if self.all_numbers and not is_dated(cells) else None
        if numbers is None:
            self._add_texts(cells)
        else:
            self.typed_truth |= pa.types.is_boolean(cells.type)
            self.typed_number |= is_numeric(cells) and not pa.types.is_null(cells.type)
            self._add_numbers(numbers, start, file)
            if len(self.texts) <= MAX_CATEGORIES:
                self.texts.update(as_texts(cells).tolist())
        self.gaps += int(np.isnan(numbers).sum()) if numbers is not None else self._new_gaps

    def _add_texts(self, cells: pa.Array) -> None:
        if self.all_numbers:  # until now; what was kept as numbers is of no use
            self.all_numbers, self.values, self.held = False, np.empty(0), 0
            self.all_days = self.all_days and self.gaps == self.rows - len(cells)
        texts = as_texts(cells)
        self._new_gaps = int((texts == "").sum())
        if len(self.texts) <= self.most:
            self.texts.update(texts.tolist())
            self.unspaced &= not any(" " in text for text in texts[:1000])
        if self.all_days:
            self._add_days(cells)

    def _add_days(self, cells: pa.Array) -> None:
        if is_dated(cells):
            self._sample(as_days(cells, None))
            return
        found = date_patterns(cells) if self.patterns is None else [
            pattern for pattern in self.patterns if as_days(cells, pattern) is not None
        ]  # fmt: skip
        self.all_days = bool(found)
        if found:
            self.patterns = found
            self._sample(as_days(cells, found[0]))

    def _add_numbers(self, numbers: NDArray[np.float64], start: int, file: str) -> None:
        complaints = Complaints(file, start)
        for row in np.flatnonzero(np.isinf(numbers)):
            complaints.add(row, self.name, "is infinite, but values must be finite; correct it")
        self.complaints += complaints.found
        self._sample(numbers)
        self._watch(numbers, start, file)

    def _watch(self, numbers: NDArray[np.float64], start: int, file: str) -> None:
        """Remember where the cell of the largest size stands."""
        sizes = np.abs(np.where(np.isfinite(numbers), numbers, 0.0))
        row = int(sizes.argmax()) if len(sizes) else 0
        if len(sizes) and sizes[row] > getattr(self, "largest", (0.0,))[0]:
            self.largest = (float(sizes[row]), start + row, float(numbers[row]), file)

    def _sample(self, numbers: NDArray[np.float64] | None) -> None:
        """Keep all values, or a uniform sample of them where there are very many (a reservoir)."""
        if numbers is None:
            return
        numbers = numbers[np.isfinite(numbers)]
        seen, self.held = self.held, self.held + len(numbers)
        room = max(0, min(self.most - seen, len(numbers)))
        self.values = np.concatenate([self.values, numbers[:room]])
        if room < len(numbers):
            places = self._random.integers(0, np.arange(seen + room, self.held) + 1)
            wins = places < self.most
            self.values[places[wins]] = numbers[room:][wins]

    # --- deciding ------------------------------------------------------------------------------

    def rule(self, wish: str | None, scaling: str, encoding: str, name: str) -> Column:
        """What to do with the column, and why."""
        self.texts.pop("", None)
        missing = self.gaps / max(1, self.rows)
        column = Column(self.name, missing=missing, numeric=self.all_numbers)
        if wish == "drop":
            return replace(column, treatment="left out", kind="–", note="as you said")
        if not self.texts and not self.held:
            return replace(column, kind="empty", treatment="left out", note="no value at all")
        if wish is not None:
            return replace(self._wished(column, wish, scaling, encoding, name), note="as you said")
        if self._different() == 1:
            only = next(iter(self.texts), "") or f"{self.values[0]:g}"
            note = f"every value is {only}"
            return replace(column, kind="constant", treatment="left out", note=note)
        if (pair := self._truth_pair()) is not None:
            return self._boolean(column, pair)
        if self.all_numbers:
            return self._number_or_id(column, scaling, name)
        if self.all_days:
            note = f"dates are left out; --column {self.name}:date clusters by them"
            return replace(column, kind="date", treatment="left out", note=note)
        return self._text(column, encoding)

    def _different(self) -> int:
        """How many values differ, as far as was looked."""
        if self.all_numbers and self.held:
            return len(np.unique(self.values))
        return len(self.texts)

    def _wished(self, column: Column, wish: str, scaling: str, encoding: str, name: str) -> Column:
        if wish == "category":
            return self._category(column, encoding, name)
        if wish == "boolean":
            pair = self._truth_pair() or tuple(sorted(self._plain_texts()))
            if len(pair) != 2:
                raise self._not(wish, "has to have two values", name)
            return self._boolean(column, (pair[0], pair[1]))
        if wish == "date":
            if not self.all_days or not self.held or self.all_numbers:
                raise self._not(wish, "must be written alike, such as 2024-01-31", name)
            return self._date(column)
        if not self.all_numbers:
            text = next(text for text in self.texts if not is_number(text))
            raise self._not(wish, f"must hold numbers, but one is {text!r}", name)
        if wish == "log" and self.values.min() <= -1:
            raise self._not(wish, f"must be above -1, the smallest is {self.values.min():g}", name)
        treatment = {"number": "standard"}.get(wish, wish)
        if wish == "number" and scaling == "none":
            treatment = "plain"
        return self._number(column, treatment, name)

    def _not(self, wish: str, what: str, name: str) -> InputError:
        return InputError(
            f"{name}: column {self.name!r} as {wish} {what}; correct it or choose another type"
        )

    def _truth_pair(self) -> tuple[str, str] | None:
        """The false and the true word of a column that has no others."""
        found = sorted({text.lower() for text in self._plain_texts()}) if self.texts else []
        if self.typed_truth or found in (["0", "1"], ["false", "true"]):
            return ("0", "1") if found == ["0", "1"] else ("false", "true")
        for yes, no in TRUTHS:
            if found == sorted((yes, no)):
                return no, yes
        return None

    def _plain_texts(self) -> Counter[str]:
        """The texts, with numbers written the shortest way."""
        if not self.all_numbers:
            return self.texts
        plain: Counter[str] = Counter()
        for text, times in self.texts.items():
            plain[plain_number(text)] += times
        return plain

    def _boolean(self, column: Column, pair: tuple[str, str]) -> Column:
        counts: Counter[str] = Counter()
        for text, times in self._plain_texts().items():
            counts[text.lower()] += times
        no, yes = counts[pair[0].lower()], counts[pair[1].lower()]
        share = yes / max(1, yes + no)
        return replace(
            column,
            kind="boolean",
            treatment="0/1",
            fill=float(yes > no),
            categories=pair,
            offset=(share,),
            scale=(float(np.sqrt(share * (1 - share))) or 1.0,),
            note=f"{pair[1]} in {share:.0%}",
        )

    def _number_or_id(self, column: Column, scaling: str, name: str) -> Column:
        if self._is_id():
            note = f"every row has its own; --column {self.name}:number clusters by it"
            return replace(column, kind="id", treatment="left out", note=note)
        treatment, note = ("plain", "") if scaling == "none" else ("standard", "")
        if scaling == "auto":
            treatment, note = _choose(self.values)
        return replace(self._number(column, treatment, name), note=note)

    def _is_id(self) -> bool:
        values = self.values
        if self.held < _MIN_IDS or len(np.unique(values)) < len(values):
            return False
        if not (values == np.floor(values)).all():
            return False
        consecutive = values.max() - values.min() + 1 <= 1.05 * self.held
        return bool(consecutive or _ID_NAME.search(self.name))

    def _number(self, column: Column, treatment: str, name: str) -> Column:
        whole = bool((self.values == np.floor(self.values)).all())
        self._check_absurd(treatment, name)
        offset, scale = weigh(self.values, treatment)
        return replace(
            column,
            kind="whole number" if whole else "number",
            treatment=treatment,
            fill=float(np.median(self.values)),
            offset=(offset,),
            scale=(scale,),
        )

    def _check_absurd(self, treatment: str, name: str) -> None:
        if treatment in ("log", "plain"):
            return
        middle, spread = float(np.median(self.values)), quartile_spread(self.values)
        size, row, value, file = getattr(self, "largest", (0.0, 0, 0.0, name))
        if spread > 0 and size - abs(middle) > ABSURD * spread:
            raise InputError(
                f"{file}: row {row} (counting from 0) of column {self.name!r} holds {value:g}, "
                f"{size / spread:.1g} times what the middle half of the column spreads: next to "
                f"it all other values would be one; correct it, or take --column {self.name}:log "
                f"or --drop {self.name}"
            )

    def _text(self, column: Column, encoding: str) -> Column:
        different, filled = len(self.texts), self.rows - self.gaps
        few = different <= FEW_CATEGORIES or different * ROWS_PER_CATEGORY <= filled
        if different <= MAX_CATEGORIES and few:
            return self._category(column, encoding, self.name)
        if different >= min(filled, self.most) and self.unspaced:
            note = "every row has its own"
            return replace(column, kind="id", treatment="left out", note=note)
        note = f"{different:,} different texts; at most {MAX_CATEGORIES} are a category"
        return replace(column, kind="text", treatment="left out", note=note)

    def _category(self, column: Column, encoding: str, name: str) -> Column:
        counts = self._plain_texts()
        if len(counts) > MAX_CATEGORIES:
            raise InputError(
                f"{name}: column {self.name!r} has more than {MAX_CATEGORIES} different values, "
                f"too many for a category; group them, or leave it out with --drop {self.name}"
            )
        categories = tuple(sorted(counts))
        share = np.array([counts[category] for category in categories]) / sum(counts.values())
        # With this one scale the 0/1 features have variance 1 together: 1 − Σ p² before it.
        scale = np.full(len(share), np.sqrt(1 - np.square(share).sum()))
        if encoding == "standard":
            scale = np.sqrt(share * (1 - share))
        return replace(
            column,
            kind="category",
            treatment="one-hot",
            fill=max(categories, key=lambda category: counts[category]),
            categories=categories,
            offset=tuple(share.tolist()),
            scale=tuple(np.where(scale > 0, scale, 1.0).tolist()),
            note=f"{len(categories)} values, together as heavy as one number"
            if encoding == "weighted"
            else f"{len(categories)} values",
        )

    def _date(self, column: Column) -> Column:
        parts = _date_parts(self.values)
        spread = parts.std(axis=0)
        circle = float(np.sqrt(np.square(spread[1:]).sum()))  # sine and cosine as one number
        scales = [float(spread[0]), circle, circle]
        return replace(
            column,
            kind="date",
            treatment="date",
            fill=float(np.median(self.values)),
            pattern=None if self.patterns is None else self.patterns[0],
            offset=tuple(parts.mean(axis=0).tolist()),
            scale=tuple(scale if scale > 1e-9 else 1.0 for scale in scales),
        )


def skewness(values: NDArray[np.float64]) -> float:
    """Mean third power of the standardised values; 0 for what is symmetric or constant.

    >>> skewness(np.array([0.0, 0.0, 3.0]))
    0.70710678118654...
    """
    size = float(np.abs(values).max()) or 1.0
    moved = values / size - np.mean(values / size)
    deviation = float(np.sqrt(np.mean(np.square(moved))))
    return float(np.mean((moved / deviation) ** 3)) if deviation > 1e-12 else 0.0


def quartile_spread(values: NDArray[np.float64]) -> float:
    """What the deviation of a normal distribution with these quartiles would be."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float((high - low) / _NORMAL_QUARTILES)


def _choose(values: NDArray[np.float64]) -> tuple[str, str]:
    """Moments, logarithm or quartiles: the plain one unless another is clearly better."""
    skewed = skewness(values)
    if values.min() >= 0 and np.mean(values == 0) <= MOST_ZEROS and skewed > SKEWED:
        straight = skewness(np.log1p(values))
        if abs(straight) < STRAIGHTENED * skewed:
            after = round(straight, 1) + 0.0  # no minus before a zero
            return "log", f"skewness {skewed:.1f}, {after:.1f} after the logarithm"
    heavy = _heaviness(values)
    if heavy <= HEAVY_TAILS:
        return "standard", ""
    note = f"few cells make the deviation {heavy:,.0f} times as large"
    if values.min() >= 0 and np.mean(values == 0) <= MOST_ZEROS:
        after = _heaviness(np.log1p(values))
        if after <= LIGHT_TAILS:
            return "log", f"{note}, {after:.1f} times after the logarithm"
    return "robust", note


def _heaviness(values: NDArray[np.float64]) -> float:
    """The deviation, in deviations of a normal distribution with these quartiles."""
    spread = quartile_spread(values)
    return weigh(values, "standard")[1] / spread if spread > 0 else 0.0


def weigh(values: NDArray[np.float64], treatment: str) -> tuple[float, float]:
    """What to subtract from a number and to divide it by.

    >>> weigh(np.array([1.0, 3.0]), "standard"), weigh(np.array([1.0, 3.0]), "plain")
    ((2.0, 1.0), (0.0, 1.0))
    """
    if treatment == "plain":
        return 0.0, 1.0
    if treatment == "robust" and (spread := quartile_spread(values)) > 0:
        return float(np.median(values)), spread
    if treatment == "log":
        values = np.log1p(values)
    # Huge values overflow their squares: a power of two away from them rounds nothing.
    unit = 2.0 ** np.floor(np.log2(np.abs(values).max() or 1.0))
    mean, deviation = float(np.mean(values / unit)), float(np.std(values / unit))
    constant = deviation <= 1e-13 * abs(mean)
    return mean * float(unit), 1.0 if constant else deviation * float(unit)
