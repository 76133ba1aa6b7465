"""`explain`: everything that is true of a fitted model on given rows. No drawing here."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import ArrayLike

from tell.contract import Labels, Reals
from tell.explanations.clusters import ClusterFacts, describe_clusters
from tell.explanations.labels import known_labels, label_texts
from tell.explanations.mapping import fitting_method, project
from tell.explanations.plain import as_plain
from tell.explanations.points import PointFacts, describe_point
from tell.explanations.quality import QualityFacts, measure_quality
from tell.explanations.rows import in_columns_of, open_rows
from tell.explanations.scan import Scan, scan
from tell.explanations.transparency import ModelFacts, describe_model
from tell.explanations.view import Floats, Ints, ModelView, feature_names, view_model


@dataclass(frozen=True, eq=False)
class DataFacts:
    """The rows that were explained; `shape` is that of one image, or None for a table."""

    name: str
    n_rows: int
    n_features: int
    feature_names: tuple[str, ...]
    named: bool
    shape: tuple[int, ...] | None
    has_labels: bool


@dataclass(frozen=True, eq=False)
class SampleFacts:
    """A seeded sample of rows; every array has one entry per sampled row.

    `map` and `map_centers` are places on a plane, or None if no map was asked for. The rows
    themselves, `values` (n, d), and their `embedding` (n, p) stay out of the JSON. `known` holds
    None for a row without a label, and is None if no sampled row has one.
    """

    rows: Ints
    labels: Ints
    runner_up: Ints
    margin: Floats
    clearness: Floats
    known: tuple[str | None, ...] | None
    map: Floats | None
    map_centers: Floats | None
    map_method: str | None
    values: Reals = field(metadata={"json": False})
    embedding: Floats = field(metadata={"json": False})


@dataclass(frozen=True, eq=False)
class LabelTable:
    """How many rows of each known label (rows of `counts`) fell into each cluster (columns).

    Clusters stand in the order of the labels that match them best.
    """

    labels: tuple[str, ...]
    clusters: tuple[int, ...]
    counts: Ints


@dataclass(frozen=True, eq=False)
class Explanation:
    """All facts; `report` and the plots draw them, `to_json` writes them down."""

    data: DataFacts
    model: ModelFacts
    clusters: tuple[ClusterFacts, ...]
    points: tuple[PointFacts, ...]
    sample: SampleFacts
    quality: QualityFacts | None
    scores: Mapping[str, float] | None
    label_table: LabelTable | None
    made: Mapping[str, str]

    def to_dict(self) -> dict[str, object]:
        """Plain lists, numbers and texts, ready for JSON."""
        plain = as_plain(self)
        if not isinstance(plain, dict):
            raise TypeError("an explanation is a record")
        return plain

    def to_json(self, indent: int | None = None) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


def explain(
    model: object,
    X: object,
    y: ArrayLike | None = None,
    *,
    rows: Iterable[int] = (),
    shape: tuple[int, ...] | None = None,
    feature_names: Sequence[str] | None = None,
    map_method: str | None = "tsne",
    quality: bool = True,
    sample_size: int = 5000,
    random_state: int = 0,
    verbose: int = 0,
) -> Explanation:
    """Say what each cluster is, why rows are where they are, and how far to trust that.

    Parameters
    ----------
    model : TELL, DeepTELL, or any fitted model with `cluster_centers_` and `predict`
    X : array of shape (n, d), or anything `tell.data.sources.open_source` reads, in chunks
    y : array of shape (n,), optional
        Known labels, only to name and score the clusters. A source may bring its own.
    rows : numbers of the rows to look at closely; default: the least clear row of the
        largest clusters and the most typical row of the largest
    shape : shape of one image, (h, w) or (c, h, w), when rows are flattened images
    feature_names : names of the columns, when X and model have none
    map_method : "tsne", "pca" or None for no map
    quality : whether to measure the explanations themselves (refits a linear model a few times)
    sample_size : rows in the seeded sample behind map, margins and quality
    random_state : seed of everything drawn
    verbose : 1 shows progress

    Returns
    -------
    Explanation

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> wine = load_wine()
    >>> X = scale(wine.data)
    >>> model = KMeans(3, n_init=5, random_state=0).fit(X)
    >>> names = wine.feature_names
    >>> facts = explain(model, X, feature_names=names, rows=[17], map_method="pca")
    >>> sorted(cluster.size for cluster in facts.clusters)
    [51, 62, 65]
    >>> point = facts.points[0]
    >>> bool(abs(sum(c.amount for c in point.contributions) - point.margin) < 1e-5)
    True
    """
    view = view_model(model)
    table = open_rows(in_columns_of(model, X), y)
    view.check_columns(table.n_features)
    shape = shape or table.shape or _input_shape(view)
    chosen = tuple(dict.fromkeys(int(row) for row in rows))
    visible = bool(verbose)
    found = scan(
        view, table, chosen=chosen, sample_size=sample_size, seed=random_state, visible=visible
    )
    data = _describe_data(view, table.name, table.feature_names, feature_names, shape, found)
    clusters = describe_clusters(view, found, data.feature_names, is_image=shape is not None)
    scores, label_table = _against_labels(found)
    return Explanation(
        data=data,
        model=describe_model(view, found),
        clusters=clusters,
        points=_points(view, found, data, clusters, chosen),
        sample=_sample(view, found, map_method, random_state, visible),
        quality=_quality(view, found, data, random_state) if quality else None,
        scores=scores,
        label_table=label_table,
        made=_made(random_state, sample_size),
    )


def _input_shape(view: ModelView) -> tuple[int, ...] | None:
    shape = view.about.input_shape
    return shape if len(shape) > 1 else None


def _describe_data(
    view: ModelView,
    name: str,
    own_names: tuple[str, ...] | None,
    given_names: Sequence[str] | None,
    shape: tuple[int, ...] | None,
    found: Scan,
) -> DataFacts:
    d = found.sample.X.shape[1]
    given = given_names if given_names is not None else own_names
    named = given is not None or view.about.feature_names is not None
    names = feature_names(view.about, given, d, shape)
    return DataFacts(name, found.n_rows, d, names, named, shape, found.y is not None)


def _mean_row(found: Scan) -> Floats:
    return found.moments.pooled(np.ones(len(found.moments.sizes), bool))[0]


def _points(
    view: ModelView,
    found: Scan,
    data: DataFacts,
    clusters: tuple[ClusterFacts, ...],
    chosen: tuple[int, ...],
) -> tuple[PointFacts, ...]:
    picked = [(row, found.chosen[row]) for row in chosen] or _default_points(clusters)
    loss = float(found.moments.squared.sum() / found.n_rows) or 1.0
    baseline = _mean_row(found)
    return tuple(
        describe_point(
            view,
            row,
            values,
            data.feature_names,
            typical_loss=loss,
            reach=found.reach,
            baseline=baseline,
            label=found.known_label(row),
            is_image=data.shape is not None,
        )
        for row, values in picked
    )


def _default_points(clusters: tuple[ClusterFacts, ...]) -> list[tuple[int, Reals]]:
    """The most typical row of the largest cluster; the least clear ones of the largest three."""
    largest = sorted((c for c in clusters if c.size), key=lambda cluster: -cluster.size)[:3]
    members = [largest[0].prototypes[0]]
    members += [one for cluster in largest for one in cluster.borderline[:1]]
    return list({one.row: (one.row, one.values) for one in members}.values())


def _sample(
    view: ModelView, found: Scan, method: str | None, seed: int, visible: bool
) -> SampleFacts:
    part = found.sample
    Z = view.layer_rows(part.X)
    places: tuple[Floats | None, Floats | None] = (None, None)
    if method is not None:
        method = fitting_method(np.vstack([Z, view.centers]), method)
        places = project(Z, view.centers, method=method, seed=seed, visible=visible)
    return SampleFacts(
        rows=part.rows,
        labels=part.labels,
        runner_up=part.runner_up,
        margin=part.margin,
        clearness=part.clearness,
        known=_known(part.y),
        map=places[0],
        map_centers=places[1],
        map_method=method,
        values=part.X,
        embedding=Z,
    )


def _known(y: Labels | None) -> tuple[str | None, ...] | None:
    texts = () if y is None else tuple(label_texts(y))
    return texts if any(text is not None for text in texts) else None


def _quality(view: ModelView, found: Scan, data: DataFacts, seed: int) -> QualityFacts:
    baseline = _mean_row(found)
    return measure_quality(view, found.sample, data.feature_names, baseline=baseline, seed=seed)


def _against_labels(found: Scan) -> tuple[dict[str, float] | None, LabelTable | None]:
    if found.y is None or found.labels is None:
        return None, None
    from tell.metrics import evaluate

    known, y = known_labels(found.y)
    scores = evaluate(y, found.labels[known])
    counts, classes, clusters = scores.confusion
    table = LabelTable(tuple(map(str, classes)), tuple(map(int, clusters)), np.asarray(counts))
    return scores.as_dict(), table


def _made(seed: int, sample_size: int) -> dict[str, str]:
    made = {
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Seed": str(seed),
        "Sample": f"up to {sample_size:,} rows",
        "Python": platform.python_version(),
    }
    for package in ("tell-clustering", "torch", "scikit-learn", "numpy"):
        try:
            made[package] = version(package)
        except PackageNotFoundError:
            continue
    return made
