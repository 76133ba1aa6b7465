"""A fitted `TELL` as one SELECT: small models belong where the data is.

    model.to_sql("customers")              tell export model --sql --table customers

Standard SQL without extensions, as DuckDB, PostgreSQL and SQLite understand it; `bigquery` differs
in how it quotes names, calls types and counts days.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tell.contract import AffineInput, ClusterModel, cluster_names
from tell.data.preparation import YEAR, Column, Preparation
from tell.exceptions import InputError
from tell.export.conditions import Limits

Dialect = Literal["standard", "bigquery", "sqlite"]


@dataclass(frozen=True)
class _Words:
    """How a dialect says things."""

    quote: str
    double: str
    text: str
    days: str  # of a date, since 1970

    def name(self, name: str) -> str:
        """A column's name, quoted."""
        if self.quote == "`":
            return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
        return '"' + name.replace('"', '""') + '"'

    def string(self, text: str) -> str:
        """A text, quoted."""
        if self.quote == "`":
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"


_DIALECTS = {
    "standard": _Words(
        '"', "DOUBLE PRECISION", "VARCHAR", "(CAST({} AS DATE) - DATE '1970-01-01')"
    ),
    "bigquery": _Words("`", "FLOAT64", "STRING", "UNIX_DATE(CAST({} AS DATE))"),
    "sqlite": _Words('"', "REAL", "TEXT", "(julianday({}) - 2440587.5)"),
}


def to_sql(
    model: ClusterModel,
    table: str = "rows",
    dialect: Dialect = "standard",
    keep: Sequence[str] | None = None,
) -> str:
    """Write one SELECT that labels the rows of a table.

    It gives the columns to keep and `cluster`, `distance` to its centre and, where clusters have
    names, `cluster_name`. NULL is a gap; a row with one that nothing fills gets no cluster.

    Parameters
    ----------
    model : TELL, or a k-means under the same contract
    table : str
        Name of the table; dots separate a schema.
    dialect : {"standard", "bigquery", "sqlite"}
    keep : columns of the result, by default all of the table that was fitted
    """
    path, words = model.input_path, _dialect(dialect)
    if not isinstance(path, AffineInput):
        raise InputError(
            f"SQL needs a model without an encoder, got {model.describe().kind}; "
            "write it as ONNX instead (--onnx)"
        )
    preparation = getattr(model, "preparation_", None)
    features = _features(model, preparation, words)
    if path.offset is not None and path.scale is not None:
        features = [
            f"({feature} - {_number(offset)}) / {_number(scale)}"
            for feature, offset, scale in zip(features, path.offset, path.scale, strict=True)
        ]
    lines = [f"{feature} AS tell_x{place}" for place, feature in enumerate(features)]
    steps = [("tell_scaled", lines, _table(table, words))]
    d, names = len(features), [f"tell_x{place}" for place in range(len(features))]
    sphere = model.describe().geometry == "sphere"
    if sphere:
        squares = _sum(f"tell_x{place} * tell_x{place}" for place in range(d))
        steps.append(("tell_length", [f"SQRT({squares}) AS tell_length"], steps[-1][0]))
        names = [f"tell_x{place} / NULLIF(tell_length, 0)" for place in range(d)]
    centers = np.asarray(model.cluster_centers_, np.float64)
    distances = [_squared(names, center, sphere=sphere) for center in centers]
    lines = [f"{distance} AS tell_d{j}" for j, distance in enumerate(distances)]
    steps.append(("tell_distances", lines, steps[-1][0]))
    chosen = [f"{_first_smallest(len(centers))} AS cluster"]
    steps.append(("tell_labelled", chosen, steps[-1][0]))
    kept = _columns(model, preparation) if keep is None else keep
    return _statement(steps, model, [words.name(column) for column in kept], words)


def rules_to_sql(
    model: ClusterModel,
    leaves: Sequence[tuple[int, Limits]],
    table: str,
    dialect: str,
    keep: Sequence[str] | None,
) -> str:
    """Write one SELECT that labels the rows of a table by the leaves of a tree.

    A row with a gap that nothing fills, in a column that its rules ask for, gets no cluster.
    """
    words = _dialect(dialect)
    preparation = getattr(model, "preparation_", None)
    features = _features(model, preparation, words)
    asked = sorted({feature for _, limits in leaves for feature in limits})
    lines = [f"{features[f]} AS tell_x{f}" for f in asked]
    cases = "\n      ".join(f"WHEN {_within(limits)} THEN {j}" for j, limits in leaves)
    name = _table(table, words)
    steps = [("tell_asked", lines, name)] if lines else []
    steps.append(
        ("tell_labelled", [f"CASE {cases}\n    END AS cluster"], steps[-1][0] if steps else name)
    )
    kept = _columns(model, preparation) if keep is None else keep
    shown = [words.name(column) for column in kept]
    return _select(steps, [*shown, "cluster", *_named(model, words)])


def _within(limits: Limits) -> str:
    """The conditions of one leaf."""
    parts = []
    for f, (low, high) in limits.items():
        parts += [f"tell_x{f} > {_number(low)}"] if math.isfinite(low) else []
        parts += [f"tell_x{f} <= {_number(high)}"] if math.isfinite(high) else []
    return " AND ".join(parts) or "1 = 1"


def _dialect(name: str) -> _Words:
    if name not in _DIALECTS:
        raise InputError(f"dialect must be one of {', '.join(_DIALECTS)}, got {name!r}")
    return _DIALECTS[name]


def _table(name: str, words: _Words) -> str:
    return ".".join(words.name(part) for part in name.split("."))


def _columns(model: ClusterModel, preparation: Preparation | None) -> Sequence[str]:
    """The columns of the table that was fitted, those that are not clustered too."""
    if preparation is not None:
        return [column.name for column in preparation.columns]
    return model.describe().feature_names or ()


def _statement(
    steps: list[tuple[str, list[str], str]], model: ClusterModel, kept: list[str], words: _Words
) -> str:
    k = len(model.cluster_centers_)
    own = " ".join(f"WHEN {j} THEN tell_d{j}" for j in range(k))
    distance = f"SQRT(CASE cluster {own} END) AS distance"
    return _select(steps, [*kept, "cluster", distance, *_named(model, words)])


def _named(model: ClusterModel, words: _Words) -> list[str]:
    """What people call the cluster, where they do."""
    names = cluster_names(model)
    cases = " ".join(f"WHEN {j} THEN {words.string(name)}" for j, name in names.items())
    return [f"CASE cluster {cases} END AS cluster_name"] if names else []


def _select(steps: list[tuple[str, list[str], str]], lines: list[str]) -> str:
    """The whole statement: each step adds columns to the one before it."""
    parts = [
        f"{name} AS (\n  SELECT *,\n    " + ",\n    ".join(added) + f"\n  FROM {table}\n)"
        for name, added, table in steps
    ]
    head = "WITH " + ",\n".join(parts)
    return f"{head}\nSELECT\n  " + ",\n  ".join(lines) + "\nFROM tell_labelled\n"


def _features(model: ClusterModel, preparation: Preparation | None, words: _Words) -> list[str]:
    if preparation is not None:
        return [line for column in preparation.used for line in _column(column, words)]
    names = model.describe().feature_names
    if names is None:
        raise InputError(
            "SQL needs columns with names, got a model that was fitted to an array; fit it to a "
            "table (a CSV or Parquet file, a frame)"
        )
    return [f"CAST({words.name(name)} AS {words.double})" for name in names]


def _column(column: Column, words: _Words) -> list[str]:
    cell = words.name(column.name)
    if column.treatment == "one-hot":
        text = f"CAST({cell} AS {words.text})"
        known = f"COALESCE(NULLIF({text}, ''), {words.string(str(column.fill))})"
        filled = text if column.fill is None else known
        return [
            f"CASE WHEN {filled} IS NULL THEN NULL WHEN {_is(filled, category, column, words)} "
            "THEN 1.0 ELSE 0.0 END"
            for category in column.categories or ()
        ]
    if column.treatment == "0/1":
        no, yes = column.categories or ("0", "1")
        text = f"LOWER(CAST({cell} AS {words.text}))"
        number = (
            f"CASE WHEN {_is(text, yes.lower(), column, words)} THEN 1.0 "
            f"WHEN {_is(text, no.lower(), column, words)} THEN 0.0 END"
        )
    elif column.treatment == "date":
        number = f"CAST({words.days.format(cell)} AS {words.double})"
    else:
        number = f"CAST({cell} AS {words.double})"
    if column.fill is not None:
        number = f"COALESCE({number}, {_number(float(column.fill))})"
    if column.treatment == "log":
        return [f"LN(1 + {number})"]
    if column.treatment == "date":
        turn = f"{_number(2 * math.pi / YEAR)} * {number}"
        return [number, f"SIN({turn})", f"COS({turn})"]
    return [number]


def _is(cell: str, category: str, column: Column, words: _Words) -> str:
    """A comparison of texts; the number 1 may also be written 1.0."""
    if not column.numeric:
        return f"{cell} = {words.string(category)}"
    return f"{cell} IN ({words.string(category)}, {words.string(str(float(category)))})"


def _squared(names: list[str], center: np.ndarray, *, sphere: bool) -> str:
    """The squared distance to one centre; a row of zeros is at 2 from all on the sphere."""
    if not sphere:
        return _sum(
            f"({name} - {_number(value)}) * ({name} - {_number(value)})"
            for name, value in zip(names, center, strict=True)
        )
    cosine = _sum(f"{_number(v)} * {name}" for name, v in zip(names, center, strict=True) if v)
    return f"CASE WHEN tell_length = 0 THEN 2.0 ELSE 2 - 2 * ({cosine or '0.0'}) END"


def _first_smallest(k: int) -> str:
    """The number of the smallest distance, the first of equal ones."""
    cases = []
    for j in range(k):
        others = [f"tell_d{j} <= tell_d{i}" for i in range(j + 1, k)]
        cases.append(f"WHEN {' AND '.join(others) or f'tell_d{j} IS NOT NULL'} THEN {j}")
    return "CASE " + " ".join(cases) + " END"


def _sum(terms: Iterable[str]) -> str:
    return " + ".join(terms)


def _number(value: float) -> str:
    """A number with all its digits, in brackets if it is negative."""
    text = repr(float(value))
    text = text if any(mark in text for mark in ".en") else f"{text}.0"
    return f"({text})" if value < 0 else text
