"""What `tell show` says about a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tell.cli.cluster_table import MOST_SHOWN, describe, print_clusters, print_metrics
from tell.cli.console import out, plain, table
from tell.cli.rows import feature_names, kept

# Centres with more columns than this are told by the columns in which they stand out.
MOST_COLUMNS = 6
MOST_TOLD = 3


def describe_model(model: Any) -> dict[str, Any]:
    """Everything `tell show` prints but the centres, as data."""
    known = kept(model)
    spread = known.get("spread")
    sizes = np.asarray(model.cluster_sizes_)
    return {
        "kind": type(model).__name__,
        "n_clusters": len(model.cluster_centers_),
        "features": int(model.n_features_in_),
        "feature_names": feature_names(model),
        "settings": model.get_params(),
        "loss": float(model.loss_),
        "data": known.get("data"),
        "label": known.get("label"),
        "rows_seen": known.get("rows_seen"),
        "preparation": known.get("preparation"),
        "metrics": known.get("metrics"),
        "clusters": describe(model, sizes, None if spread is None else np.asarray(spread)),
    }


def centers_in_units(model: Any) -> NDArray[np.floating[Any]] | None:
    """The centres in the units of the data; a deep model has them in its own space only."""
    return np.asarray(model.centers_in_units()) if hasattr(model, "centers_in_units") else None


def print_facts(facts: dict[str, Any]) -> None:
    """Print the model in a few lines and its clusters as a table."""
    settings = facts["settings"]
    grid = table("", " ", text=("", " "))
    grid.show_header = False
    for name, value in (
        ("model", f"{facts['kind']}, {facts['n_clusters']} clusters, {facts['features']} columns"),
        ("geometry", settings.get("geometry", "sphere")),
        ("standardized", "yes" if settings.get("standardize") else None),
        ("half-life", settings.get("half_life")),
        ("learned from", facts["data"]),
        ("rows seen", None if facts["rows_seen"] is None else f"{facts['rows_seen']:,}"),
        ("label column", facts["label"]),
        ("prepared", _prepared(facts["preparation"])),
        ("loss", f"{facts['loss']:.4g}"),
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


def centers_table(names: list[str] | None, centers: NDArray[np.floating[Any]]) -> Table | None:
    """All columns of the centres if they are few, else those that set each cluster apart.

    Many columns without a name, such as pixels, tell nothing: then there is no table.
    """
    if names is None and centers.shape[1] > MOST_COLUMNS:
        return None
    names = names or [f"column {position}" for position in range(centers.shape[1])]
    names = [plain(name) for name in names]
    if len(names) <= MOST_COLUMNS:
        grid = table("centre of", *map(escape, names))
        for cluster, center in enumerate(centers[:MOST_SHOWN]):
            grid.add_row(str(cluster), *(f"{value:.4g}" for value in center))
        return grid
    grid = table("centre of", "stands out by", text=("stands out by",))
    typical, width = centers.mean(axis=0), centers.std(axis=0)
    apart = (centers - typical) / np.where(width > 0, width, np.inf)
    for cluster, center in enumerate(centers[:MOST_SHOWN]):
        strongest = np.argsort(-np.abs(apart[cluster]), kind="stable")[:MOST_TOLD]
        told = (f"{names[place]} {center[place]:.3g} ({typical[place]:.3g})" for place in strongest)
        grid.add_row(str(cluster), _text(", ".join(told)))
    grid.caption = "value of the centre (mean of all centres)"
    return grid
