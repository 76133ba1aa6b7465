"""A model card: what a model is, what it was made from and how far to trust it, as a page.

    tell show model --card > README.md

It begins with the header that model hubs read, so that a model folder can be pushed as it is.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from tell.contract import AffineInput, ClusterModel, cluster_names
from tell.data.preparation import Preparation


def model_card(model: ClusterModel) -> str:
    """Write the card of a fitted model in Markdown."""
    return "\n".join(_lines(model)) + "\n"


def _lines(model: ClusterModel) -> Iterator[str]:
    facts, kept = model.describe(), dict(getattr(model, "metadata_", None) or {})
    yield from ("---", "library_name: tell", "tags:", "- clustering", "- interpretability", "---")
    data = str(kept.get("data", "data of unknown origin"))
    yield f"\n# {facts.n_clusters} clusters of {data}\n"
    rows = "" if facts.sizes is None else f", from {_count(np.sum(facts.sizes))} rows"
    yield (
        f"A `{facts.kind}` ({facts.geometry} geometry) that puts each row into the cluster whose "
        f"centre is nearest. Fitted by tell {version('tell-clustering')} on Python "
        f"{platform.python_version()}{rows} with {facts.n_features:,} features."
    )
    yield "\n## Clusters\n"
    yield from _clusters(facts.sizes, cluster_names(model), facts.n_clusters)
    yield "\n## Columns\n"
    yield from _columns(getattr(model, "preparation_", None), facts.feature_names)
    yield "\n## How good it is, and how far to trust it\n"
    yield from _quality(facts.loss, kept.get("metrics"), model)
    yield "\n## How to use it\n"
    yield from ("```python", "import tell", "", 'model = tell.load("model")')
    yield from ('labels = model.predict("rows.csv")', "```")
    yield "\n## Settings\n"
    yield from (f"- `{name}`: `{value!r}`" for name, value in sorted(facts.settings.items()))


def _count(value: Any) -> str:
    return f"{float(value):,.0f}"


def _percent(share: float) -> str:
    return "< 0.1 %" if 0 < share < 0.001 else f"{100 * share:.1f} %"


def _clusters(sizes: Any, names: Mapping[int, str], k: int) -> Iterator[str]:
    yield from ("| cluster | name | rows | share |", "| --- | --- | --- | --- |")
    total = None if sizes is None else float(np.sum(sizes)) or 1.0
    for j in range(k):
        size = "unknown" if sizes is None else _count(sizes[j])
        share = "unknown" if total is None else _percent(float(sizes[j]) / total)
        yield f"| {j} | {names.get(j, '')} | {size} | {share} |"


def _columns(preparation: Preparation | None, names: tuple[str, ...] | None) -> Iterator[str]:
    if preparation is None:
        yield ", ".join(f"`{name}`" for name in names) if names else "Without names, by place."
        return
    yield from ("| column | is | becomes | gaps at the fit |", "| --- | --- | --- | --- |")
    for column in preparation.columns:
        gaps = "none" if not column.missing else _percent(column.missing)
        yield f"| {column.name} | {column.kind} | {column.treatment} | {gaps} |"


def _quality(loss: float | None, metrics: Any, model: ClusterModel) -> Iterator[str]:
    if loss is not None:
        yield f"- Mean squared distance of a row to its centre: {loss:.4g}."
    if isinstance(metrics, Mapping):
        known = {name: value for name, value in metrics.items() if isinstance(value, float)}
        for name, value in known.items():
            yield f"- Against the classes that were known at the fit, {name}: {value:.3f}."
    exact = isinstance(model.input_path, AffineInput)
    yield (
        "- Reasons for a label are exact sums over the columns."
        if exact
        else "- Reasons for a label pass through a network and are attributions, not exact sums."
    )
    yield (
        "- Every row gets a cluster, also one that is unlike all rows of the fit, unless `predict` "
        "is asked to reject some (`reject=0.01`)."
    )
    yield (
        "- A clustering finds groups in any data. Whether these are more than chance says "
        "`tell explain model rows`, which compares them with structureless rows."
    )
