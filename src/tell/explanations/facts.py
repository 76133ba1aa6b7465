"""`explain`: everything that is true of a fitted model on given rows. No drawing here."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tell.adapter import is_pipeline, unchained
from tell.choosing.structureless import compressed
from tell.contract import Labels, Reals
from tell.data.prepared_tables import in_columns_of
from tell.exceptions import ParameterError
from tell.explanations.ancestry import Ancestor, describe_lineage
from tell.explanations.choice_curves import ChoiceFacts, describe_choice
from tell.explanations.clusters import ClusterFacts, describe_clusters, missing_by_column
from tell.explanations.counterfactual import Columns, learn_columns
from tell.explanations.explained_rows import Rows, known_labels, label_texts, open_rows
from tell.explanations.mapping import fitting_method, project
from tell.explanations.matrices import Matrix, stacked
from tell.explanations.plain import as_plain
from tell.explanations.points import PointFacts, describe_point
from tell.explanations.profiles import Profile, cells_beside, describe_profiles
from tell.explanations.quality import QualityFacts, measure_quality
from tell.explanations.rejections import (
    Reasons,
    Rejecter,
    Rejections,
    called,
    describe_rejections,
    share_asked,
)
from tell.explanations.remarks import remarks
from tell.explanations.scan import Scan, scan
from tell.explanations.structure import Structure, judge_structure
from tell.explanations.terms import Cell, Terms, learn_terms
from tell.explanations.transparency import ModelFacts, describe_model
from tell.explanations.view import (
    EncodedInput,
    Floats,
    Ints,
    ModelView,
    feature_names,
    kind_of,
    labels_of,
    model_of_rows,
    number_labels,
    view_model,
)

if TYPE_CHECKING:
    from tell.explanations.contrast import Contrast
    from tell.explanations.directions import Direction
    from tell.explanations.gates import Gates

Reference = Literal["middle", "mean"]


@dataclass(frozen=True, eq=False)
class DataFacts:
    """The rows that were explained; `shape` is that of one image, or None for a table.

    `feature_names` (d,) are in the terms of the table: "price", "country = Germany". `columns` are
    those of the table itself, and `missing` says of which share of the rows one has no value.
    """

    name: str
    n_rows: int
    n_features: int
    feature_names: tuple[str, ...]
    named: bool
    shape: tuple[int, ...] | None
    has_labels: bool
    columns: tuple[str, ...]
    missing: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class SampleFacts:
    """A seeded sample of rows; every array has one entry per sampled row.

    `map` and `map_centers` are places on a plane, or None if no map was asked for. The rows
    themselves, `values` (n, d), which of these were `filled`, their `embedding` (n, p) and columns
    `beside` them that were not clustered stay out of the JSON. `known` holds
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
    values: Matrix = field(metadata={"json": False})
    embedding: Matrix = field(metadata={"json": False})
    filled: NDArray[np.bool_] | None = field(metadata={"json": False}, default=None)
    beside: Mapping[str, tuple[Cell | None, ...]] = field(
        metadata={"json": False}, default_factory=dict
    )


@dataclass(frozen=True, eq=False)
class LabelTable:
    """How many rows of each known label (rows of `counts`) fell into each cluster (columns).

    Clusters stand in the order of the labels that match them best.
    """

    labels: tuple[str, ...]
    clusters: tuple[int, ...]
    counts: Ints


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """All facts; `report` and the plots draw them, `to_json` writes them down.

    `structure` says first whether there is anything to explain, `remarks` what is easily
    overlooked, `row_names` what the rows that are shown are called, `choice` why there are so many
    clusters (where the model chose), `lineage` what became of those of an earlier model, and
    `rejections` which rows belong to no cluster and why, where that was asked for.
    """

    data: DataFacts
    structure: Structure | None
    remarks: tuple[str, ...]
    model: ModelFacts
    clusters: tuple[ClusterFacts, ...]
    points: tuple[PointFacts, ...]
    sample: SampleFacts
    quality: QualityFacts | None
    scores: Mapping[str, float] | None
    label_table: LabelTable | None
    profiles: tuple[Profile, ...]
    row_names: Mapping[int, str]
    made: Mapping[str, str]
    choice: ChoiceFacts | None
    lineage: tuple[Ancestor, ...]
    rejections: Rejections | None
    terms: Terms = field(metadata={"json": False})

    def by_size(self) -> list[ClusterFacts]:
        """The clusters, largest first."""
        return sorted(self.clusters, key=lambda one: -one.size)

    def cluster_title(self, j: int) -> str:
        """A cluster's number, and its name where it has one."""
        name = self.clusters[j].name
        if name is None or name.startswith("cluster "):  # a label that was a number
            return name or f"cluster {j}"
        return f"{j} {name}"

    def row_title(self, row: int) -> str:
        """What a row is called, or its number."""
        return self.row_names.get(row, f"Row {row}")

    def contrast(self, cluster: int, other: int) -> Contrast:
        """Say what sets a cluster apart from one other: "unlike cluster 2: high income …".

        The mean margin between the two over the members of `cluster`, split over the columns by
        `W_j − W_k`; behind an encoder the columns in which the members differ most.
        """
        from tell.explanations.contrast import contrast

        return contrast(self, cluster, other)

    def gates(self, size: int) -> Gates:
        """The `size` features that speak most for each cluster, and for each sampled row."""
        from tell.explanations.gates import choose_gates

        return choose_gates(self, size)

    def directions(self, row: int) -> tuple[Direction, ...]:
        """The margin of an explained row of a deep model, split over the embedding's directions.

        This first step is exact; what each direction means, by its most active rows, the columns
        that go along with it and what the decoder draws along it, is not, and says how far off.
        """
        from tell.explanations.directions import describe_directions

        return describe_directions(self, row)

    def __repr__(self) -> str:
        from tell.explanations.frames import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from tell.explanations.frames import as_html

        return as_html(self)

    def to_frame(self, table: str = "clusters") -> Any:
        """A pandas frame of "clusters", "members", "points", "profiles" or "rejected"."""
        from tell.explanations.frames import to_frame

        return to_frame(self, table)

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
    ids: Sequence[object] | None = None,
    profile: object = None,
    fixed: Iterable[str] = (),
    reject: float | None = None,
    map_method: str | None = "tsne",
    quality: bool = True,
    reference: Reference = "middle",
    sample_size: int = 5000,
    random_state: int = 0,
    verbose: int = 0,
) -> Explanation:
    """Say what each cluster is, why rows are where they are, and how far to trust that.

    Parameters
    ----------
    model : TELL, DeepTELL, any fitted model with `cluster_centers_` and `predict`, a fitted
        scikit-learn `Pipeline` that ends in one, a mixture, a clusterer that keeps `labels_`, or
        the labels (n,) themselves. Where there are only labels, the means of their rows take the
        place of centres, and the agreement says how often a row is nearest to its own.
    X : array of shape (n, d), or anything `tell.data.sources.open_source` reads, in chunks
    y : array of shape (n,), optional
        Known labels, only to name and score the clusters. A source may bring its own.
    rows : numbers of the rows to look at closely; default: the least clear row of the
        largest clusters and the most typical row of the largest
    shape : shape of one image, (h, w) or (c, h, w), when rows are flattened images
    feature_names : names of the columns, when X and model have none
    ids : sequence of shape (n,), optional
        What rows are called in the report: ids, texts, file names. Default: the index of a frame
        unless it merely counts.
    profile : frame or mapping of names to columns (n,), optional
        Columns that were not clustered, to describe the clusters by.
    fixed : names of columns that may not change where a row is moved to another cluster
    reject : float, optional
        Also say which rows `predict(X, reject=...)` gives -1, and why each: 0.01 gives up 1 % of
        rows like those of the fit. For a `TELL`.
    map_method : "tsne", "pca" or None for no map
    quality : whether to measure the explanations themselves (refits a linear model a few times)
    reference : {"middle", "mean"}, default="middle"
        Where the reasons of a row start. From the middle of two centres a value speaks for the
        cluster on whose side it lies; from the mean row, for the one towards which it differs from
        the average: these are the Shapley values of the margin, and the mean row's own margin is
        left over. Behind an encoder reasons always start at the mean row, and in sparse rows on the
        sphere at 0.
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
    ids = _ids(X, ids)
    model, table, feature_names = _opened(model, X, y, feature_names)
    view = view_model(model)
    view.check_columns(table.n_features)
    shape = shape or table.shape or _input_shape(view)
    chosen = tuple(dict.fromkeys(int(row) for row in rows))
    visible = bool(verbose)
    names = _names(view, table, feature_names, shape)
    terms = learn_terms(table.preparation, names)
    rejecter = None if reject is None else Rejecter(view, reject)
    found = scan(
        view,
        table,
        terms,
        chosen=chosen,
        sample_size=sample_size,
        seed=random_state,
        visible=visible,
        keep_labels=profile is not None,
        also=None if rejecter is None else rejecter.add,
    )
    named = any(
        n is not None for n in (feature_names, table.feature_names, view.about.feature_names)
    )
    data = _describe_data(table.name, terms.titles(names), named, shape, found)
    clusters = describe_clusters(view, found, data.feature_names, is_image=shape is not None)
    scores, label_table = _against_labels(found)
    columns = _columns(found, data, fixed)
    from_mean = _check_reference(reference) == "mean"
    embedded = view.placed(found.sample.X)
    ends = _ends(view, embedded)
    points = _points(view, found, data, clusters, chosen, columns, ids, from_mean, ends)
    image = shape is not None
    rejections = None
    if rejecter is not None:
        reasons = Reasons(view, rejecter, found.sample, clusters, terms, is_image=image)
        rejections = describe_rejections(rejecter, reasons, ids)
        points = tuple(_with_rejection(point, rejecter, reasons, found) for point in points)
    profiles = (
        () if profile is None else describe_profiles(profile, found.all_labels, len(clusters))
    )
    return Explanation(
        data=data,
        structure=judge_structure(view, found.sample, columns, random_state) if quality else None,
        remarks=remarks(view, found, clusters, data.feature_names, image=image),
        model=describe_model(view, found),
        clusters=clusters,
        points=points,
        sample=_sample(view, found, embedded, map_method, random_state, visible, profile),
        quality=_quality(view, found, data, random_state) if quality else None,
        scores=scores,
        label_table=label_table,
        profiles=profiles,
        row_names=_row_names(ids, clusters, points, found, rejections),
        made=_made(random_state, sample_size),
        choice=None if view.about.choice is None else describe_choice(view.about.choice),
        lineage=describe_lineage(view.about.lineage),
        rejections=rejections,
        terms=terms,
    )


def _opened(
    model: object, X: Any, y: ArrayLike | None, names: Sequence[str] | None
) -> tuple[object, Rows, Sequence[str] | None]:
    """A model under the contract, the rows it knows, and their names, from whatever was given."""
    if is_pipeline(model):
        model, X, found = unchained(model, X, scale=not sparse.issparse(X))
        names = found if names is None else names
    labels = labels_of(model, X)
    if labels is None:
        return model, open_rows(in_columns_of(model, X), y), names
    numbers, titles = number_labels(labels)
    rows = open_rows(X, y, given=numbers)
    return model_of_rows(rows, numbers, titles, kind_of(model)), rows, names


def _ids(X: Any, ids: Sequence[object] | None) -> Sequence[object] | None:
    """What rows are called: as given, or the index of a frame where it tells more than a number."""
    if ids is not None:
        return ids
    index = getattr(X, "index", None)
    return None if callable(index) or type(index).__name__ in ("NoneType", "RangeIndex") else index


def _row_names(
    ids: Sequence[object] | None,
    clusters: tuple[ClusterFacts, ...],
    points: tuple[PointFacts, ...],
    found: Scan,
    rejections: Rejections | None,
) -> dict[int, str]:
    """Names of the rows that are shown, those of the map included."""
    if ids is None:
        return {}
    shown = {one.row for c in clusters for one in (*c.prototypes, *c.borderline, *c.outliers)}
    shown |= {point.row for point in points} | set(found.sample.rows.tolist())
    shown |= set() if rejections is None else {one.row for one in rejections.rows}
    return {row: str(ids[row]) for row in sorted(shown) if row < len(ids)}


def _columns(found: Scan, data: DataFacts, fixed: Iterable[str]) -> Columns:
    return learn_columns(
        data.feature_names,
        found.sample.X,
        found.moments.low,
        found.moments.high,
        found.moments.whole,
        terms=found.terms,
        fixed=fixed,
    )


def _input_shape(view: ModelView) -> tuple[int, ...] | None:
    shape = view.about.input_shape
    return shape if len(shape) > 1 else None


def _names(
    view: ModelView, rows: Rows, given: Sequence[str] | None, shape: tuple[int, ...] | None
) -> tuple[str, ...]:
    """Names of the features."""
    known = given if given is not None else rows.feature_names
    return feature_names(view.about, known, rows.n_features, shape)


def _describe_data(
    name: str, names: tuple[str, ...], named: bool, shape: tuple[int, ...] | None, found: Scan
) -> DataFacts:
    return DataFacts(
        name=name,
        n_rows=found.n_rows,
        n_features=len(names),
        feature_names=names,
        named=named,
        shape=shape,
        has_labels=found.y is not None,
        columns=tuple(column.name for column in found.terms.columns),
        missing=missing_by_column(found, np.ones(len(found.moments.sizes), bool)),
    )


def _check_reference(reference: str) -> str:
    if reference not in ("middle", "mean"):
        raise ParameterError(f"reference must be 'middle' or 'mean', got {reference!r}")
    return reference


def _mean_row(found: Scan) -> Floats:
    """The features (d,) of a row with the mean of every column, over the values that are there."""
    mean = found.moments.pooled(np.ones(len(found.moments.sizes), bool))[0]
    gone = np.isnan(mean)
    if gone.any():
        mean[gone] = found.terms.shown(found.sample.X)[:, gone].mean(axis=0)
    return found.terms.hidden(mean)


def _points(
    view: ModelView,
    found: Scan,
    data: DataFacts,
    clusters: tuple[ClusterFacts, ...],
    chosen: tuple[int, ...],
    columns: Columns,
    ids: Sequence[object] | None,
    from_mean: bool,
    ends: Floats | None,
) -> tuple[PointFacts, ...]:
    picked = [(row, found.chosen[row]) for row in chosen] or _default_points(clusters)
    filled = found.chosen_filled | _filled_rows(found)
    loss = float(found.moments.squared.sum() / found.n_rows) or 1.0
    baseline = _mean_row(found)
    typical = {c.index: c.prototypes[0].values for c in clusters if c.prototypes}
    return tuple(
        describe_point(
            view,
            row,
            values,
            data.feature_names,
            typical_loss=loss,
            reach=found.reach,
            baseline=baseline,
            columns=columns,
            members=typical,
            called=called(ids, row),
            label=found.known_label(row),
            given=found.given.get(row),
            filled=filled.get(row),
            is_image=data.shape is not None,
            is_sparse=sparse.issparse(found.sample.X),
            from_mean=from_mean,
            ends=ends,
        )
        for row, values in picked
    )


def _with_rejection(
    point: PointFacts, rejecter: Rejecter, reasons: Reasons, found: Scan
) -> PointFacts:
    """A row with the reason why the model rejects it, if it does."""
    x = np.asarray(point.values)
    if not rejecter.outside(x[None])[0]:
        return point
    filled = (found.chosen_filled | _filled_rows(found)).get(point.row)
    why = reasons.of(point.row, x, float(rejecter.score(x[None])[0]), point.name, filled)
    text = f"{point.summary} At {share_asked(rejecter.share)} it is rejected: {why.reason}."
    return replace(point, rejection=why, summary=text)


def _filled_rows(found: Scan) -> dict[int, NDArray[np.bool_]]:
    """Which values stand for a gap (d,), of the rows that stand for something."""
    rows: dict[int, NDArray[np.bool_]] = {}
    for part in (found.nearest, found.unclear):
        if part.filled is not None:
            rows |= dict(zip(part.rows.tolist(), part.filled, strict=True))
    return rows


def _default_points(clusters: tuple[ClusterFacts, ...]) -> list[tuple[int, Reals]]:
    """The most typical row of the largest cluster; the least clear ones of the largest three."""
    largest = sorted((c for c in clusters if c.size), key=lambda cluster: -cluster.size)[:3]
    members = [largest[0].prototypes[0]]
    members += [one for cluster in largest for one in cluster.borderline[:1]]
    return list({one.row: (one.row, one.values) for one in members}.values())


def _ends(view: ModelView, Z: Matrix) -> Floats | None:
    """Where the directions of an embedding (n, p) begin and end, but for its extremes: (2, p)."""
    if not isinstance(view.path, EncodedInput):
        return None
    return np.quantile(np.asarray(Z), (0.02, 0.98), axis=0)


def _sample(
    view: ModelView,
    found: Scan,
    Z: Matrix,
    method: str | None,
    seed: int,
    visible: bool,
    profile: object,
) -> SampleFacts:
    part = found.sample
    places: tuple[Floats | None, Floats | None] = (None, None)
    if method is not None:
        flat, centers = _on_main_axes(Z, view.centers, seed)
        method = fitting_method(np.vstack([flat, centers]), method)
        places = project(flat, centers, method=method, seed=seed, visible=visible)
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
        filled=part.filled,
        beside={} if profile is None else cells_beside(profile, part.rows),
    )


def _on_main_axes(Z: Matrix, centers: Floats, seed: int) -> tuple[Floats, Floats]:
    """Sparse rows and centres on the main axes of both; dense ones as they are."""
    if not sparse.issparse(Z):
        return Z, centers
    together = compressed(stacked([Z, sparse.csr_array(centers)]), seed)
    return together[: Z.shape[0]], together[Z.shape[0] :]


def _known(y: Labels | None) -> tuple[str | None, ...] | None:
    texts = () if y is None else tuple(label_texts(y))
    return texts if any(text is not None for text in texts) else None


def _quality(view: ModelView, found: Scan, data: DataFacts, seed: int) -> QualityFacts:
    baseline = _mean_row(found)
    return measure_quality(
        view, found.sample, data.feature_names, found.terms, baseline=baseline, seed=seed
    )


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
