"""What is true of each cluster: size, shape, neighbours, typical and odd members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tell.explanations.labels import main_label
from tell.explanations.members import Member, members, outliers
from tell.explanations.scan import Scan
from tell.explanations.view import AffineInput, EncodedInput, Floats, ModelView
from tell.explanations.words import percent

#: Effect sizes below this are not named: "small" in Cohen's convention ends at 0.5.
NAMED_EFFECT = 0.5
#: At most this many features are named.
N_NAMED = 3
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
    name, index : the column
    weight : entry of W_j − W̄, exact; for a deep model that of the decoded centres, in standard
        deviations of the data
    value : the centre in the data's own units
    inside, outside : mean over the members, and over all other rows
    effect : (inside − outside) / pooled standard deviation, signed; the deviation counts as at
        least a tenth of that of the whole column
    """

    name: str
    index: int
    weight: float
    value: float
    inside: float
    outside: float
    effect: float


@dataclass(frozen=True, eq=False)
class ClusterFacts:
    """One cluster in its own terms.

    Attributes
    ----------
    cohesion : mean cosine of the members to their centre on the sphere, else mean distance
    nearest, nearest_distance, nearest_angle : the closest other centre (angle in degrees)
    confused_with, confused_share : the cluster its borderline members lean to, and their share
    center : (d,) the centre in the data's own units; the members' mean if no decoder can draw it
    features : what sets it apart: those the summary names, then by |W_j − W̄|, strongest first
    effects : (d,) effect size of every column
    prototypes, borderline, outliers : nearest members, least clear ones, unusually far ones
    main_label, main_label_share : most frequent label, and its share of the members that have one
    """

    index: int
    size: int
    share: float
    cohesion: float
    nearest: int | None
    nearest_distance: float | None
    nearest_angle: float | None
    confused_with: int | None
    confused_share: float
    center: Floats
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
    centers = centers_in_units(view, found)
    contrast = _contrast(view, centers, found)
    return tuple(
        _describe(view, found, names, j, centers[j], contrast[j], is_image, n_named)
        for j in range(view.n_clusters)
    )


def centers_in_units(view: ModelView, found: Scan) -> Floats:
    """Centres (k, d) in the data's own units: undone scaler, decoded image, or members' mean."""
    centers = view.model.centers_in_units()
    if centers is None:
        return found.moments.mean()
    return np.asarray(centers, np.float64).reshape(view.n_clusters, -1)


def _contrast(view: ModelView, centers: Floats, found: Scan) -> Floats:
    # W_j − W̄ says exactly how feature f moves the score of cluster j against the average cluster.
    weight = view.weight_and_bias()[0]
    if isinstance(view.path, EncodedInput):  # weights of the embedding: compare drawn centres
        spread = _deviation(found)
        weight = np.divide(centers, spread, out=np.zeros_like(centers), where=spread > 0)
    return np.asarray(weight - weight.mean(axis=0))


def _describe(
    view: ModelView,
    found: Scan,
    names: Sequence[str],
    j: int,
    center: Floats,
    contrast: Floats,
    is_image: bool,
    n_named: int,
) -> ClusterFacts:
    size = int(found.moments.sizes[j])
    nearest, distance, angle = _neighbour(view, j)
    confused_with, confused_share = _confusion(found, j)
    label, label_share = _main_label(found, j)
    effects, features = _features(found, names, j, center, contrast)
    # Behind an encoder the weights come from a decoder, which may miss what the rows show.
    named = name_features(features, by_weight=isinstance(view.path, AffineInput))
    features = (*named, *(fact for fact in features if fact not in named))
    share = size / found.n_rows
    facts = (share, None if is_image else named, label, label_share, confused_with)
    return ClusterFacts(
        index=j,
        size=size,
        share=share,
        cohesion=_cohesion(view, found, j),
        nearest=nearest,
        nearest_distance=distance,
        nearest_angle=angle,
        confused_with=confused_with,
        confused_share=confused_share,
        center=center,
        features=features[:n_named],
        effects=effects,
        prototypes=members(found.nearest, j),
        borderline=members(found.unclear, j) if view.n_clusters > 1 else (),
        outliers=outliers(found, j),
        main_label=label,
        main_label_share=label_share,
        summary=summarise(*facts),
    )


def name_features(features: Sequence[FeatureFact], *, by_weight: bool) -> tuple[FeatureFact, ...]:
    """The few features to name: those with the largest weights, given in this order, or effects.

    A feature goes by its weight only where the model pulls the way its rows lie: else it merely
    goes along. None is named only if no effect is worth a name.
    """
    strong = [fact for fact in features if abs(fact.effect) >= NAMED_EFFECT]
    pulls = [fact for fact in strong if by_weight and fact.weight * fact.effect > 0]
    by_effect = sorted(strong, key=lambda fact: -abs(fact.effect))
    return tuple((pulls or by_effect)[:N_NAMED])


def summarise(
    share: float,
    named: Sequence[FeatureFact] | None,
    label: str | None,
    label_share: float | None,
    confused_with: int | None,
) -> str:
    """One line in plain language, made from the facts alone.

    >>> alcohol = FeatureFact("alcohol", 0, 0.4, 13.7, 13.7, 12.6, 1.9)
    >>> acid = FeatureFact("malic acid", 1, -0.2, 1.9, 1.9, 2.6, -0.7)
    >>> summarise(0.34, [alcohol, acid], None, None, 2)
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
        words = [f"{'high' if fact.effect > 0 else 'low'} {fact.name}" for fact in named]
        parts.append(", ".join(words) or "close to the average in every feature")
    parts.append(f"{percent(share)} of rows")
    if confused_with is not None:
        parts.append(f"often confused with cluster {confused_with}")
    return "; ".join(parts)


def _features(
    found: Scan, names: Sequence[str], j: int, center: Floats, contrast: Floats
) -> tuple[Floats, tuple[FeatureFact, ...]]:
    """Effect sizes (d,), and all columns as facts, strongest |W_j − W̄| first."""
    inside = np.arange(len(found.moments.sizes)) == j
    mean_in, var_in = found.moments.pooled(inside)
    mean_out, var_out = found.moments.pooled(~inside)
    n_in, n_out = found.moments.sizes[j], found.n_rows - found.moments.sizes[j]
    if n_in == 0 or n_out == 0:
        mean_out, effect = mean_in, np.zeros_like(mean_in)
    else:
        spread = np.sqrt((n_in * var_in + n_out * var_out) / (n_in + n_out))
        whole = _deviation(found)
        spread = np.maximum(spread, LEAST_SPREAD * whole)
        effect = np.divide(mean_in - mean_out, spread, out=np.zeros_like(spread), where=whole > 0)
    order = np.argsort(-np.abs(contrast), kind="stable")
    columns = (contrast, center, mean_in, mean_out, effect)
    facts = (FeatureFact(names[f], int(f), *(float(c[f]) for c in columns)) for f in order)
    return effect, tuple(facts)


def _deviation(found: Scan) -> Floats:
    """Standard deviation (d,) of every column over all rows; 0 where there is only rounding."""
    mean, variance = found.moments.pooled(np.ones(len(found.moments.sizes), bool))
    deviation = np.sqrt(variance)
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
