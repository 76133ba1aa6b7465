"""What `tell show` says about a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tell.cli.cluster_table import MOST_SHOWN, describe, print_clusters, print_metrics
from tell.cli.console import out, plain, table
from tell.cli.rows import feature_names, kept

if TYPE_CHECKING:
    from tell.contract import ClusterModel, Reals

# Centres with more columns than this are told by the columns in which they stand out.
MOST_COLUMNS = 6
MOST_TOLD = 3
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
        "data": known.get("data"),
        "label": known.get("label"),
        "rows_seen": known.get("rows_seen"),
        "preparation": known.get("preparation"),
        "metrics": known.get("metrics"),
        "members": known.get("members"),
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
        ("learned from", facts["data"]),
        ("rows seen", None if facts["rows_seen"] is None else f"{facts['rows_seen']:,}"),
        ("label column", facts["label"]),
        ("prepared", _prepared(facts["preparation"])),
        ("loss", None if facts["loss"] is None else f"{facts['loss']:.4g}"),
    ):
        if value is not None:
            grid.add_row(f"[bold]{name}[/]", _text(value))
    out.print(grid)
    out.print()
    print_clusters(facts["clusters"])
    if facts["metrics"]:
        out.print("\nagainst the known classes, when fitted:")
        print_metrics({"score": facts["metrics"]})


def _text(value: object) -> Text:
    return Text(plain(value))


def _prepared(preparation: dict[str, Any] | None) -> str | None:
    """Tell the preparation in words."""
    if preparation is None:
        return None
    columns = preparation["columns"]
    texts = [column["name"] for column in columns if column["categories"] is not None]
    words = [f"text columns as 0/1: {', '.join(texts)}"] if texts else []
    if preparation["drops_rows"]:
        words.append("rows with gaps dropped")
    elif any(column["fill"] is not None for column in columns):
        words.append("gaps filled")
    return "; ".join(words) or None


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
        means = np.asarray(facts["members"]["mean"], np.float64)
        return values_table(names, means, "mean of", "mean of the members (mean of all clusters)")
    if (found := centers.get("centers")) is not None:
        return values_table(names, found, "centre of", "value of the centre (mean of all centres)")
    directions = centers.get("directions")
    if directions is None or directions.shape[1] != facts["features"]:  # of an embedding
        return None
    note = "entry of the direction, which has no units (mean of all directions)"
    return values_table(names, directions, "direction of", note)


def values_table(names: list[str] | None, values: Reals, heading: str, note: str) -> Table | None:
    """All columns of the clusters' values (k, d) if few, else those that set each cluster apart.

    Many columns without a name, such as pixels, tell nothing: then there is no table.
    """
    if values.ndim != 2 or (names is None and values.shape[1] > MOST_COLUMNS):
        return None
    names = names or [f"column {position}" for position in range(values.shape[1])]
    names = [plain(name) for name in names]
    values = np.where(np.abs(values) > ROUNDING * np.abs(values).max(axis=0), values, 0.0)
    if len(names) <= MOST_COLUMNS:
        grid = table(heading, *map(escape, names))
        for cluster, row in enumerate(values[:MOST_SHOWN]):
            grid.add_row(str(cluster), *(f"{value:.4g}" for value in row))
        return grid
    grid = table(heading, "stands out by", text=("stands out by",))
    typical, width = values.mean(axis=0), values.std(axis=0)
    apart = (values - typical) / np.where(width > 0, width, np.inf)
    for cluster, row in enumerate(values[:MOST_SHOWN]):
        strongest = np.argsort(-np.abs(apart[cluster]), kind="stable")[:MOST_TOLD]
        told = (f"{names[place]} {row[place]:.3g} ({typical[place]:.3g})" for place in strongest)
        grid.add_row(str(cluster), _text(", ".join(told)))
    grid.caption = note
    return grid
