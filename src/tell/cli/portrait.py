"""What `tell show` and `tell fit` say about a model: columns, preparation, centres."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tell.cli.cluster_table import MOST_SHOWN, describe, print_clusters, print_metrics
from tell.cli.console import err, out, plain, say, table
from tell.data.table_preparation import decisions
from tell.runtime.model_rows import feature_names, kept

if TYPE_CHECKING:
    from tell.contract import ClusterModel, Reals
    from tell.data.preparation import Preparation


# Centres with more columns than this are told by the columns in which they stand out.
MOST_COLUMNS = 6
MOST_PREPARED = 40  # columns of a table whose preparation is told
MOST_TOLD = 3
_WAYS = {
    "one-hot": "categories",
    "0/1": "yes or no",
    "log": "by their logarithm",
    "robust": "by their quartiles",
    "date": "dates",
    "left out": "left out",
}
# What is this much smaller than the others of its column is rounding.
ROUNDING = 1e-12


def describe_model(model: ClusterModel) -> dict[str, Any]:
    """Everything `tell show` prints but the centres, as data."""
    known, about = kept(model), model.describe()
    spread = known.get("spread")
    sizes = np.zeros(about.n_clusters) if about.sizes is None else about.sizes
    return {
        "kind": about.kind,
        "geometry": about.geometry,
        "n_clusters": about.n_clusters,
        "features": about.n_features,
        "feature_names": feature_names(model),
        "settings": dict(about.settings),
        "loss": about.loss,
        "last_batch_loss": _last_batch(model),
        "data": known.get("data"),
        "label": known.get("label"),
        "rows_seen": known.get("rows_seen"),
        "preparation": _decisions(model),
        "metrics": known.get("metrics"),
        "members": known.get("members"),
        "choice": about.choice,
        "lineage": list(about.lineage),
        "retired": list(about.retired),
        "clusters": describe(model, sizes, None if spread is None else np.asarray(spread)),
    }


def describe_unopened(folder: Path) -> dict[str, Any]:
    """What a folder says of a model whose networks nobody has allowed to be built yet."""
    from tell.persistence import read_model

    saved = read_model(folder)
    options, results, known = (
        part if isinstance(part := saved.config.get(name), dict) else {}
        for name in ("options", "results", "metadata")
    )
    return {
        "kind": saved.kind,
        "n_clusters": options.get("n_clusters"),
        "features": results.get("n_features_in_"),
        "feature_names": saved.config.get("feature_names"),
        "settings": options,
        "loss": results.get("loss_"),
        "data": known.get("data"),
        "rows_seen": known.get("rows_seen"),
        "encoder": options.get("encoder"),
        "decoder": options.get("decoder"),
        "trusted": False,
    }


def print_unopened(facts: dict[str, Any], reason: str) -> None:
    """Print what is known of a model that was not opened, and why it was not."""
    grid = table("", " ", text=("", " "))
    grid.show_header = False
    for name, value in (
        ("model", f"{facts['kind']}, {facts['n_clusters']} clusters, {facts['features']} columns"),
        ("encoder", facts["encoder"]),
        ("decoder", facts["decoder"]),
        ("learned from", facts["data"]),
        ("rows seen", facts["rows_seen"]),
        ("loss", facts["loss"]),
    ):
        if value is not None:
            grid.add_row(f"[bold]{name}[/]", _text(value))
    out.print(grid)
    out.print()
    out.print(_text(reason))


def print_facts(facts: dict[str, Any]) -> None:
    """Print the model in a few lines and its clusters as a table."""
    settings = facts["settings"]
    grid = table("", " ", text=("", " "))
    grid.show_header = False
    for name, value in (
        ("model", f"{facts['kind']}, {facts['n_clusters']} clusters, {facts['features']} columns"),
        ("geometry", facts["geometry"]),
        ("standardized", "yes" if settings.get("standardize") else None),
        ("half-life", settings.get("half_life")),
        ("may grow", "yes" if settings.get("grow") else None),
        ("retired", ", ".join(map(str, facts["retired"])) or None),
        ("learned from", facts["data"]),
        ("rows seen", None if facts["rows_seen"] is None else f"{facts['rows_seen']:,}"),
        ("label column", facts["label"]),
        ("prepared", _prepared(facts["preparation"])),
        ("loss", _loss(facts["loss"])),
        ("loss of last batch", _loss(facts["last_batch_loss"])),
    ):
        if value is not None:
            grid.add_row(f"[bold]{name}[/]", _text(value))
    out.print(grid)
    out.print()
    print_clusters(facts["clusters"])
    if facts["metrics"]:
        out.print("\nagainst the known classes, when fitted:")
        print_metrics({"score": facts["metrics"]})


def _last_batch(model: ClusterModel) -> float | None:
    """The loss of the last batch of a stream, before it was learned."""
    stream = getattr(model, "stream_", None)
    return float(stream[-1]["loss"]) if stream and "loss" in stream[-1] else None


def _loss(loss: float | None) -> str | None:
    return None if loss is None else f"{loss:.4g}"


def _text(value: object) -> Text:
    return Text(plain(value))


def _decisions(model: ClusterModel) -> list[dict[str, Any]] | None:
    """What became of each column of the model's table."""
    learned = getattr(model, "preparation_", None)
    return None if learned is None else decisions(learned)


def _prepared(columns: list[dict[str, Any]] | None) -> str | None:
    """Tell the preparation in words."""
    if columns is None:
        return None
    ways = {way: [c["column"] for c in columns if c["treatment"] == way] for way in _WAYS}
    words = [f"{_WAYS[way]}: {', '.join(names)}" for way, names in ways.items() if names]
    if any(c["missing"] and c["fill"] is not None for c in columns):
        words.append("gaps filled")
    elif any(c["missing"] and c["treatment"] != "left out" for c in columns):
        words.append("rows with gaps dropped")
    return "; ".join(words) or "numbers of equal weight"


def describe_centers(model: ClusterModel) -> dict[str, Any]:
    """Centres in the units of the data, or, on the sphere, as the directions that they are."""
    about = model.describe()
    if about.geometry == "sphere":
        return {"directions": model.cluster_centers_}
    return {"centers": model.centers_in_units()}


def clusters_table(facts: dict[str, Any], centers: dict[str, Any]) -> Table | None:
    """What each cluster looks like: its members' means if they are known, else its centre."""
    names = facts["feature_names"]
    if facts["members"] is not None:
        return _members_table(facts["members"])
    if (found := centers.get("centers")) is not None:
        note = "value of the centre (mean of all centres)"
        return values_table(names, found, "centre of", note)
    directions = centers.get("directions")
    if directions is None or directions.shape[1] != facts["features"]:  # of an embedding
        return None
    note = "entry of the direction, which has no units (mean of all directions)"
    return values_table(names, directions, "direction of", note)


def _members_table(members: dict[str, Any]) -> Table | None:
    """The members' means against those of all rows, of the features that say something alone."""
    means = np.asarray(members["mean"], np.float64)
    usual = np.array([members["mean_of_all"], members["deviation_of_all"]], np.float64)
    readable = np.asarray(members["readable"], bool)
    told = np.flatnonzero(readable).tolist()
    found = members["features"]
    return values_table(
        None if found is None else [found[f] for f in told],
        means[:, readable],
        "mean of",
        "mean of the members (mean of all rows)",
        kinds=[members["kinds"][f] for f in told],
        usual=usual[:, readable],
    )


def _told(values: Iterable[float], kind: str, digits: int = 4) -> list[str]:
    """Numbers of one column: shares of a category, dates, or plain numbers."""
    from tell.explanations.terms import BOOLEAN, CATEGORY, DATE, day
    from tell.explanations.words import percent

    write = {CATEGORY: percent, BOOLEAN: percent, DATE: day}.get(kind)
    if write is None:
        return shown(values, digits)
    return ["–" if value != value else write(float(value)) for value in values]


def values_table(
    names: list[str] | None,
    values: Reals,
    heading: str,
    note: str,
    *,
    kinds: list[str] | None = None,
    usual: Reals | None = None,
) -> Table | None:
    """All columns of the clusters' values (k, d) if few, else those that set each cluster apart.

    Many columns without a name, such as pixels, tell nothing: then there is no table. `usual`
    (2, d) is mean and standard deviation of all rows; default: those of the values themselves.
    """
    if values.ndim != 2 or (names is None and values.shape[1] > MOST_COLUMNS):
        return None
    names = names or [f"column {position}" for position in range(values.shape[1])]
    names = [plain(name) for name in names]
    kinds = kinds or ["number"] * len(names)
    largest = np.nan_to_num(np.abs(values)).max(axis=0)
    values = np.where(np.abs(values) <= ROUNDING * largest, 0.0, values)
    if len(names) <= MOST_COLUMNS:
        grid = table(heading, *map(escape, names))
        columns = zip(values[:MOST_SHOWN].T, kinds, strict=True)
        told = [_told(column, kind) for column, kind in columns]
        for cluster, _ in enumerate(values[:MOST_SHOWN]):
            grid.add_row(str(cluster), *(column[cluster] for column in told))
        return grid
    grid = table(heading, "stands out by", text=("stands out by",))
    typical, width = (values.mean(axis=0), values.std(axis=0)) if usual is None else usual
    apart = np.nan_to_num((values - typical) / np.where(width > 0, width, np.inf))
    for cluster, row in enumerate(values[:MOST_SHOWN]):
        strongest = np.argsort(-np.abs(apart[cluster]), kind="stable")[:MOST_TOLD]
        pairs = ((names[at], *_told([row[at], typical[at]], kinds[at], 3)) for at in strongest)
        words = (f"{name} {own} ({usual})" for name, own, usual in pairs)
        grid.add_row(str(cluster), _text(", ".join(words)))
    grid.caption = note
    return grid


def print_preparation(preparation: Preparation, *, by_default: bool, deep: bool) -> None:
    """Say on standard error what every column is and what becomes of it."""
    lines = decisions(preparation)
    grid = table("column", "is", "becomes", "gaps", "filled with", "why", text=(
        "column", "is", "becomes", "filled with", "why",
    ))  # fmt: skip
    for line in lines[:MOST_PREPARED]:
        grid.add_row(*(Text(plain(cell)) for cell in _cells(line)))
    err.print(grid)
    if len(lines) > MOST_PREPARED:
        say(f"… and {len(lines) - MOST_PREPARED:,} more columns; tell show --json lists all")
    # Both measured by benchmarks/tables.py.
    if deep and any(column.treatment == "one-hot" for column in preparation.columns):
        say("--deep was far behind a plain fit on made tables with categories; compare with one")
    if by_default and not deep:
        say("equal weights, euclidean: best over 11 labelled tables; change: --column NAME:TYPE")


def _cells(line: dict[str, Any]) -> list[str]:
    gaps = "< 0.1%" if 0 < line["missing"] < 0.001 else f"{line['missing']:.1%}"
    gaps = gaps if line["missing"] else ""
    fill = line["fill"] if line["missing"] else None
    filled = "" if fill is None else (shown([fill])[0] if isinstance(fill, float) else str(fill))
    return [line["column"], line["kind"], line["treatment"], gaps, filled, line["note"]]


def shown(values: Iterable[float], digits: int = 4) -> list[str]:
    """Numbers of one column, with enough digits that different ones look different.

    Each has at least `digits` significant digits; more where the column spreads by less than they
    show. Nothing below 10^15 is written with an exponent, and rounding noise is 0.

    >>> shown([20240115.0, 20240116.0])
    ['20240115', '20240116']
    >>> shown([1234567.891, 0.5]), shown([3.0, -4.5e-17]), shown([1e30])
    (['1234568', '0.5'], ['3', '0'], ['1e+30'])
    """
    numbers = [float(value) for value in values]
    finite = np.array([value for value in numbers if np.isfinite(value)])
    largest = float(np.abs(finite).max()) if len(finite) else 0.0
    clean = [0.0 if abs(value) < 1e-14 * largest else value for value in numbers]
    gap = _smallest_gap(clean)
    return [_shown(value, digits, gap) for value in clean]


def _smallest_gap(numbers: list[float]) -> float:
    """Between two different numbers of the column; not finer than a millionth of the largest."""
    different = np.unique([value for value in numbers if np.isfinite(value)])
    if len(different) < 2:
        return 0.0
    least = 1e-9 * float(np.abs(different).max())
    gaps = np.diff(different)
    return float(gaps[gaps > least].min()) if (gaps > least).any() else 0.0


def _shown(value: float, digits: int, gap: float) -> str:
    if not np.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = int(np.floor(np.log10(abs(value))))
    if abs(value) >= 1e15 or abs(value) < 1e-5:
        return f"{value:.{digits - 1}g}" if gap == 0 else f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - size)
    if gap > 0:  # so that half a step of the last digit is less than the gap
        decimals = max(decimals, min(9, int(np.ceil(-np.log10(gap)))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
