"""What is true of each cluster: size, shape, neighbours, typical and odd members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tell.contract import Reals
from tell.explanations.explained_rows import label_texts, main_label
from tell.explanations.matrices import dense, medians, taken
from tell.explanations.scan import Scan
from tell.explanations.terms import DATE, NUMBER, Term, Terms, number_text, span_text
from tell.explanations.view import AffineInput, Assigned, EncodedInput, Floats, ModelView
from tell.explanations.words import percent

#: Effect sizes below this are not named: "small" in Cohen's convention ends at 0.5.
NAMED_EFFECT = 0.5
#: At most this many features are named.
N_NAMED = 3
#: Words that tell what a cluster of texts is about.
N_WORDS = 5
#: In effect sizes a column varies by at least this share of its whole standard deviation: a column
#: that is constant inside each cluster stands out most, but not infinitely.
LEAST_SPREAD = 0.1
#: "Often confused": at least this share of a cluster lies at the boundary with one other.
CONFUSED_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class FeatureFact:
    """How one feature sets a cluster apart from all other rows.

    Attributes
    ----------
    name, index : the feature, in the terms of the data: "age", "country = Germany"
    column, level : the column of the data, and the category that the feature stands for, if any
    kind : of the column: "number", "logarithm" (by which it was clustered), "category", "boolean"
        or "date" (in days since 1970)
    missing : share of the members without a value; all other numbers are over those that have one
    weight : entry of W_j − W̄, exact; for a deep model that of the decoded centres, in standard
        deviations of the data
    inside, outside : mean over the members, and over all other rows: of a category its share
    median, deviation : of the members; the median is that of the sampled ones
    effect : (inside − outside) / pooled standard deviation, signed; the deviation counts as at
        least a tenth of that of the whole column
    """

    name: str
    index: int
    weight: float
    inside: float
    outside: float
    median: float
    deviation: float
    effect: float
    missing: float = 0.0
    column: str = ""
    level: str | None = None
    kind: str = NUMBER

    def words(self) -> str:
        """What is told of it: "high income", or how frequent a category is."""
        if self.level is not None:
            return f"{self.name} ({percent(self.inside)} here, {percent(self.outside)} elsewhere)"
        high, low = ("late", "early") if self.kind == DATE else ("high", "low")
        return f"{high if self.effect > 0 else low} {self.name}"

    def numbers(self) -> str:
        """Its statistics as they are printed."""
        gaps = f"; {percent(self.missing)} missing" if self.missing else ""
        if self.level is not None:
            return f"{percent(self.inside)} here, {percent(self.outside)} elsewhere{gaps}"
        mean, median, others = (
            number_text(value, self.kind) for value in (self.inside, self.median, self.outside)
        )
        spread = span_text(self.deviation, self.kind)
        return f"mean {mean}, median {median}, spread {spread}; others {others}{gaps}"


@dataclass(frozen=True, eq=False)
class ClusterFacts:
    """One cluster in its own terms.

    Attributes
    ----------
    name : what people call it, where they gave it a name
    cohesion : mean cosine of the members to their centre on the sphere, else mean distance
    nearest, nearest_distance, nearest_angle : the closest other centre (angle in degrees)
    confused_with, confused_share : the cluster its borderline members lean to, and their share
    mean, median, deviation : (d,) what the members look like, in the data's own units: mean and
        standard deviation of all members, median of the sampled ones, over the values that are
        there
    missing : column of the data → share of the members without a value, where there are such
    center : (p,) what the model compares rows with: on the sphere a direction of unit length, whose
        entries have no units; else a point among the rows as the model scales them
    picture : (d,) the centre as the model draws it, for images; the members' mean if it cannot
    features : what sets it apart: those the summary names, then by |W_j − W̄|, strongest first
    effects : (d,) effect size of every column
    prototypes, borderline, outliers : nearest members, least clear ones, unusually far ones
    main_label, main_label_share : most frequent label, and its share of the members that have one
    """

    index: int
    name: str | None
    size: int
    share: float
    cohesion: float
    nearest: int | None
    nearest_distance: float | None
    nearest_angle: float | None
    confused_with: int | None
    confused_share: float
    mean: Floats
    median: Floats
    deviation: Floats
    missing: Mapping[str, float]
    center: Floats
    picture: Floats = field(metadata={"json": False})
    features: tuple[FeatureFact, ...]
    effects: Floats
    prototypes: tuple[Member, ...]
    borderline: tuple[Member, ...]
    outliers: tuple[Member, ...]
    main_label: str | None
    main_label_share: float | None
    summary: str


def describe_clusters(
    view: ModelView, found: Scan, names: Sequence[str], *, is_image: bool, n_named: int = 8
) -> tuple[ClusterFacts, ...]:
    """Facts of all clusters from one scan; `names` has one entry per column."""
    pictures = drawn_centers(view, found)
    contrast = _contrast(view, pictures, found)
    return tuple(
        _describe(view, found, names, j, pictures[j], contrast[j], is_image, n_named)
        for j in range(view.n_clusters)
    )


def drawn_centers(view: ModelView, found: Scan) -> Floats:
    """Centres (k, d) for the eye: scaling undone, decoded image, or the members' mean."""
    centers = view.model.centers_in_units()
    if centers is None:
        return found.moments.mean()
    return np.asarray(centers, np.float64).reshape(view.n_clusters, -1)


def _contrast(view: ModelView, centers: Floats, found: Scan) -> Floats:
    # W_j − W̄ says exactly how feature f moves the score of cluster j against the average cluster.
    weight = view.weight_and_bias()[0]
    if isinstance(view.path, EncodedInput):  # weights of the embedding: compare drawn centres
        spread = _deviation(found)
        shown = found.terms.shown(centers)
        weight = np.divide(shown, spread, out=np.zeros_like(shown), where=spread > 0)
    return np.asarray(weight - weight.mean(axis=0))


def _describe(
    view: ModelView,
    found: Scan,
    names: Sequence[str],
    j: int,
    picture: Floats,
    contrast: Floats,
    is_image: bool,
    n_named: int,
) -> ClusterFacts:
    size = int(found.moments.sizes[j])
    nearest, distance, angle = _neighbour(view, j)
    confused_with, confused_share = _confusion(found, j)
    label, label_share = _main_label(found, j)
    columns = _columns(found, j, contrast)
    if sparse.issparse(found.sample.X):
        named = _telling_words(names, columns, found.terms)
    else:
        strong = np.flatnonzero((np.abs(columns.effect) >= NAMED_EFFECT) & found.terms.readable)
        strong = strong[np.argsort(-np.abs(contrast[strong]), kind="stable")]
        # Behind an encoder the weights come from a decoder, which may miss what the rows show.
        by_weight = isinstance(view.path, AffineInput)
        named = name_features(columns.facts(names, strong, found.terms), by_weight=by_weight)
    there = {fact.index for fact in named}
    order = np.argsort(-np.abs(contrast), kind="stable")
    order = order[found.terms.readable[order]][: n_named + len(named)]
    rest = [f for f in order.tolist() if f not in there]
    features = (*named, *columns.facts(names, rest, found.terms))
    share = size / found.n_rows
    facts = (share, None if is_image else named, label, label_share, _known_as(view, confused_with))
    return ClusterFacts(
        index=j,
        name=view.names.get(j),
        size=size,
        share=share,
        cohesion=_cohesion(view, found, j),
        nearest=nearest,
        nearest_distance=distance,
        nearest_angle=angle,
        confused_with=confused_with,
        confused_share=confused_share,
        mean=columns.inside,
        median=columns.median,
        deviation=columns.deviation,
        missing=missing_by_column(found, np.arange(view.n_clusters) == j),
        center=view.centers[j],
        picture=picture,
        features=features[:n_named],
        effects=columns.effect,
        prototypes=members(found.nearest, j, found.terms),
        borderline=members(found.unclear, j, found.terms) if view.n_clusters > 1 else (),
        outliers=outliers(found, j),
        main_label=label,
        main_label_share=label_share,
        summary=summarise(*facts),
    )


def name_features(features: Sequence[FeatureFact], *, by_weight: bool) -> tuple[FeatureFact, ...]:
    """The few features to name: those with the largest weights, given in this order, or effects.

    A feature goes by its weight only where the model pulls the way its rows lie: else it merely
    goes along. None is named only if no effect is worth a name, and no column twice: of the
    categories of one, the first says it.
    """
    strong = [fact for fact in features if abs(fact.effect) >= NAMED_EFFECT]
    pulls = [fact for fact in strong if by_weight and fact.weight * fact.effect > 0]
    by_effect = sorted(strong, key=lambda fact: -abs(fact.effect))
    first: dict[str, FeatureFact] = {}
    for fact in pulls or by_effect:
        first.setdefault(fact.column or fact.name, fact)
    return tuple(first.values())[:N_NAMED]


def summarise(
    share: float,
    named: Sequence[FeatureFact] | None,
    label: str | None,
    label_share: float | None,
    confused_with: str | None,
) -> str:
    """One line in plain language, made from the facts alone.

    >>> alcohol = FeatureFact("alcohol", 0, 0.4, 13.7, 12.6, 13.8, 0.5, 1.9)
    >>> acid = FeatureFact("malic acid", 1, -0.2, 1.9, 2.6, 1.8, 0.4, -0.7)
    >>> summarise(0.34, [alcohol, acid], None, None, "cluster 2")
    'high alcohol, low malic acid; 34 % of rows; often confused with cluster 2'
    """
    if share == 0:
        return "empty: no row is nearest to this centre"
    parts = []
    if label is not None and label_share is not None:
        parts.append(f"{percent(label_share)} labelled {label}")
    if share == 1:  # no other rows to compare with
        return "; ".join([*parts, "holds all rows"])
    if named is not None:
        parts.append(
            ", ".join(fact.words() for fact in named) or "close to the average in every feature"
        )
    parts.append(f"{percent(share)} of rows")
    if confused_with is not None:
        parts.append(f"often confused with {confused_with}")
    return "; ".join(parts)


def _known_as(view: ModelView, j: int | None) -> str | None:
    return None if j is None else view.called(j)


@dataclass(frozen=True, eq=False)
class _Columns:
    """All columns of one cluster: every array is (d,), named as in `FeatureFact`."""

    weight: Floats
    inside: Floats
    outside: Floats
    median: Floats
    deviation: Floats
    effect: Floats
    missing: Floats

    def facts(
        self, names: Sequence[str], chosen: Iterable[int], terms: Terms
    ) -> tuple[FeatureFact, ...]:
        """The chosen columns as facts, in their order."""
        return tuple(self._fact(names[f], int(f), terms.of[f]) for f in chosen)

    def _fact(self, name: str, f: int, column: Term) -> FeatureFact:
        numbers = {one.name: float(getattr(self, one.name)[f]) for one in fields(self)}
        words = {"column": column.name, "level": column.level(f), "kind": column.kind}
        return FeatureFact(name=name, index=f, **numbers, **words)  # type: ignore[arg-type]


def missing_by_column(found: Scan, inside: NDArray[np.bool_]) -> dict[str, float]:
    """Share of the rows in the clusters marked `inside` without a value, column by column."""
    share = found.moments.missing_share(inside)
    columns = ((column.name, float(share[column.features[0]])) for column in found.terms.columns)
    return {name: part for name, part in columns if part > 0}


def _telling_words(
    names: Sequence[str], columns: _Columns, terms: Terms
) -> tuple[FeatureFact, ...]:
    """Of sparse columns, words as a rule: those that add most to the members' score.

    (W_j − W̄) times the members' mean is how much a column speaks, on average, for this cluster.
    """
    amounts = columns.weight * columns.inside
    best = np.argsort(-amounts, kind="stable")[:N_WORDS]
    return columns.facts(names, [f for f in best.tolist() if amounts[f] > 0], terms)


def _columns(found: Scan, j: int, contrast: Floats) -> _Columns:
    """What the members look like in every column, and all other rows."""
    inside = np.arange(len(found.moments.sizes)) == j
    mean_in, var_in = found.moments.pooled(inside)
    mean_out, var_out = found.moments.pooled(~inside)
    n_in, n_out = found.moments.counts(inside), found.moments.counts(~inside)
    if found.moments.sizes[j] in (0, found.n_rows):
        mean_out, effect = mean_in, np.zeros_like(mean_in)
    else:
        spread = np.sqrt((n_in * var_in + n_out * var_out) / np.maximum(n_in + n_out, 1))
        whole = _deviation(found)
        spread = np.maximum(spread, LEAST_SPREAD * whole)
        apart = np.nan_to_num(mean_in - mean_out)  # 0 where one side has no value at all
        effect = np.divide(apart, spread, out=np.zeros_like(spread), where=whole > 0)
    deviation = np.where(_deviation(found) > 0, np.sqrt(var_in), 0.0)
    missing = found.moments.missing_share(inside)
    return _Columns(
        contrast, mean_in, mean_out, _middle(found, j, mean_in), deviation, effect, missing
    )


def _middle(found: Scan, j: int, mean: Floats) -> Floats:
    """Median (d,) of the sampled members, over the values that are there."""
    sampled = np.flatnonzero(found.sample.labels == j)
    if not len(sampled):
        return mean
    values = found.terms.shown(taken(found.sample.X, sampled))
    gaps = None if found.sample.filled is None else found.sample.filled[sampled]
    if gaps is None or not gaps.any():
        return medians(values)
    there = ~gaps.all(axis=0)
    middle = np.full(values.shape[1], np.nan)
    middle[there] = np.nanmedian(np.where(gaps, np.nan, values)[:, there], axis=0)
    return middle


def _deviation(found: Scan) -> Floats:
    """Standard deviation (d,) of every column over all rows; 0 where there is only rounding."""
    mean, variance = found.moments.pooled(np.ones(len(found.moments.sizes), bool))
    mean, deviation = np.nan_to_num(mean), np.sqrt(variance)
    precision = np.finfo(np.result_type(found.sample.X.dtype, np.float32)).eps
    return np.where(deviation > 2 * precision * np.abs(mean), deviation, 0.0)


def _cohesion(view: ModelView, found: Scan, j: int) -> float:
    if view.on_sphere:
        return float(found.moments.mean_cosine()[j])
    return float(found.moments.distance[j] / max(int(found.moments.sizes[j]), 1))


def _neighbour(view: ModelView, j: int) -> tuple[int | None, float | None, float | None]:
    if view.n_clusters == 1:
        return None, None, None
    distance = np.sqrt(view.squared_distances(view.centers[j][None]))[0]
    distance[j] = np.inf
    nearest = int(np.argmin(distance))
    lengths = np.linalg.norm(view.centers[[j, nearest]], axis=1).prod()
    cosine = view.centers[j] @ view.centers[nearest] / lengths if lengths > 0 else 1.0
    angle = float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
    return nearest, float(distance[nearest]), angle


def _confusion(found: Scan, j: int) -> tuple[int | None, float]:
    counts = found.confused[j]
    other = int(np.argmax(counts))
    share = float(counts[other] / max(found.moments.sizes[j], 1))
    return (other if share >= CONFUSED_SHARE else None), share


def _main_label(found: Scan, j: int) -> tuple[str | None, float | None]:
    if found.labels is None or found.y is None:
        return None, None
    return main_label(found.y[found.labels == j])


@dataclass(frozen=True, eq=False)
class Member:
    """One row of the data that stands for something: its number, values and place.

    `values` (d,) are its features, and `filled` names the columns in which it has a gap.
    """

    row: int
    values: Reals
    distance: float
    margin: float
    clearness: float
    runner_up: int
    label: str | None
    filled: tuple[str, ...] = ()


def members(part: Assigned, j: int, terms: Terms) -> tuple[Member, ...]:
    """The rows of `part` that belong to cluster j, in their order."""
    places = np.flatnonzero(part.labels == j).tolist()
    return tuple(_member(part, place, terms) for place in places)


def _member(part: Assigned, place: int, terms: Terms) -> Member:
    """One row of `part` as a fact."""
    return Member(
        row=int(part.rows[place]),
        values=dense(part.X[[place]])[0],
        distance=float(part.distance[place]),
        margin=float(part.margin[place]),
        clearness=float(part.clearness[place]),
        runner_up=int(part.runner_up[place]),
        label=None if part.y is None else label_texts(part.y[place : place + 1])[0],
        filled=terms.filled(None if part.filled is None else part.filled[place]),
    )


def outliers(found: Scan, j: int) -> tuple[Member, ...]:
    """Farthest members beyond Tukey's inner fence of the sampled distances."""
    distances = found.sample.distance[found.sample.labels == j]
    if len(distances) < 8:
        return ()
    low, high = np.percentile(distances, [25, 75])
    fence = high + 1.5 * (high - low)
    return tuple(one for one in members(found.farthest, j, found.terms) if one.distance > fence)
