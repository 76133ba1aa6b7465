"""`TablePreparation`: a table as people have it becomes rows of numbers, as scikit-learn's part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tell.data.preparation import Preparation
from tell.data.prepared_tables import held_table, open_prepared
from tell.data.sources import open_source
from tell.data.survey import Encoding, Gaps, ScalingRule, learn
from tell.data.tables import TableSource
from tell.exceptions import InputError

#: One line per column: what it is, what becomes of it, how much is missing, why.
Decision = dict[str, Any]


class TablePreparation(TransformerMixin, BaseEstimator):
    """Learn what each column of a table is, and turn tables into numbers that weigh alike.

    Numbers are standardised; where that is clearly better, by their logarithm (not negative, at
    most 10 % zeros, skewness above 2 and brought below a quarter of it, or a deviation more than
    five times that of the middle half and brought below twice) or else by their quartiles (a
    deviation more than five times that of the middle half). A category of any size weighs as much
    as one number, a boolean is one column. Gaps get the median or the most common value, and
    `missing` tells where they were. Dates, ids, free text and constants are left out, unless
    `types` says otherwise.

    Parameters
    ----------
    types : dict of str to str, optional
        What columns are to be, whatever they look like: "number", "log", "robust", "plain" (not
        scaled), "category", "boolean", "date" (a line and a yearly circle) or "drop".
    gaps : {"fill", "drop"}, default="fill"
        "drop" leaves out rows with a gap.
    scaling : {"auto", "standard", "none"}, default="auto"
        "standard" takes neither logarithms nor quartiles; "none" leaves numbers as they are.
    encoding : {"weighted", "standard"}, default="weighted"
        "standard" gives every value of a category the weight of a number.

    Attributes
    ----------
    preparation_ : tell.data.preparation.Preparation
        All that was learned, as plain data.
    decisions_ : list of dict
        One entry per column, in the table's order: column, kind, treatment, missing, fill, note.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [31, None, 45], "city": ["Ulm", "Ulm", "Bonn"]})
    >>> prepare = TablePreparation().fit(table)
    >>> prepare.get_feature_names_out().tolist()
    ['age', 'city=Bonn', 'city=Ulm']
    >>> prepare.transform(table).round(2)[:, 0].tolist()
    [-1.0, 0.0, 1.0]
    >>> prepare.missing(table).tolist()
    [[False, False], [True, False], [False, False]]
    >>> prepare.inverse_transform(prepare.transform(table))["city"]
    ['Ulm', 'Ulm', 'Bonn']
    """

    preparation_: Preparation

    def __init__(
        self,
        *,
        types: Mapping[str, str] | None = None,
        gaps: Gaps = "fill",
        scaling: ScalingRule = "auto",
        encoding: Encoding = "weighted",
    ) -> None:
        self.types = types
        self.gaps = gaps
        self.scaling = scaling
        self.encoding = encoding

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a frame, an Arrow table or the path of a table."""
        self.preparation_ = self.learn(open_table(X))
        self.feature_names_in_ = np.array([c.name for c in self.preparation_.columns], dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return self

    def learn(self, source: TableSource) -> Preparation:
        """Read a source once; nothing is kept here."""
        return learn(
            source,
            types=self.types,
            gaps=self.gaps,
            scaling=self.scaling,
            encoding=self.encoding,
        )

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Rows as numbers (n, d) that weigh alike; NaN in rows with gaps under gaps="drop"."""
        check_is_fitted(self)
        learned = self.preparation_
        rows = open_prepared(X, learned, keep_gaps=True).read().X
        return np.asarray((rows - learned.offset) / learned.scale)

    def inverse_transform(self, X: Any) -> dict[str, list[Any]]:
        """Numbers (n, d) back as columns of the table, for `pandas.DataFrame`."""
        check_is_fitted(self)
        learned = self.preparation_
        return learned.undo(np.asarray(X, np.float64) * learned.scale + learned.offset)

    def missing(self, X: Any) -> NDArray[np.bool_]:
        """Which cells of the clustered columns are gaps, (n, columns)."""
        check_is_fitted(self)
        filled = open_prepared(X, self.preparation_, keep_gaps=True).read().filled
        firsts = [places[0] for places in self.preparation_.groups.values()]
        return np.zeros((0, len(firsts)), bool) if filled is None else filled[:, firsts]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that `transform` gives."""
        check_is_fitted(self)
        return np.array(self.preparation_.feature_names, dtype=object)

    @property
    def decisions_(self) -> list[Decision]:
        """What was decided, column by column."""
        return decisions(self.preparation_)


def decisions(preparation: Preparation) -> list[Decision]:
    """What a preparation does, column by column, as a table."""
    return [
        {
            "column": column.name,
            "kind": column.kind,
            "treatment": column.treatment,
            "missing": column.missing,
            "fill": _shown_fill(column.fill, column.categories, column.treatment),
            "note": column.note,
        }
        for column in preparation.columns
    ]


def _shown_fill(fill: Any, categories: Sequence[str] | None, treatment: str) -> Any:
    """What fills gaps, in the table's own terms."""
    if fill is None or treatment == "left out":
        return None
    if treatment == "0/1" and categories is not None:
        return categories[int(fill)]
    if treatment == "date":
        return str(np.datetime64(round(fill), "D"))
    return fill


def open_table(data: Any, **choice: Any) -> TableSource:
    """Open what has named or numbered columns, so that it can be read twice."""
    source = open_source(data, **choice)
    if not isinstance(source, TableSource):
        raise InputError(
            f"{source.name}: a preparation needs a table with columns (a frame, CSV, Parquet), "
            "got an array; give it as a frame, or without preparing (prepare=False, --no-prepare)"
        )
    return source if source.rereadable else held_table(source)
