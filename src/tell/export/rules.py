"""A clustering as rules that a person can apply by hand, and what that costs.

    rules = model.to_rules(X)              tell export model --rules rows.csv

The rules are the leaves of a tree of thresholds on the data's own columns; they predict and go to
SQL by themselves, also those of a model with an encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.contract import (
    AffineInput,
    ClusterModel,
    Floats,
    Ints,
    Reals,
    cluster_names,
    unit,
    unnamed,
)
from tell.data.preparation import Column, Preparation
from tell.data.prepared_tables import in_columns_of
from tell.data.sources import open_source
from tell.exceptions import InputError, ParameterError
from tell.export.conditions import Limits, Question, leaf_limits
from tell.export.threshold_tree import ThresholdTree, grow_tree

#: Numbers that the rows of a sample may hold, all columns together.
MOST_NUMBERS = 50_000_000


@dataclass(frozen=True, eq=False)
class Rule:
    """One leaf of a tree: conditions in the data's own units, and the cluster they stand for.

    Of the rows it was measured on `n_rows` fit, `precision` is the share of these that belong to
    the cluster, `coverage` the share of the cluster's rows that fit.
    """

    cluster: int
    text: str
    precision: float
    coverage: float
    n_rows: int


@dataclass(frozen=True)
class Price:
    """What rules cost against the model they stand for.

    Attributes
    ----------
    n_leaves, depth : rules, and questions that the longest of them asks
    cost_ratio : loss of the rules' clusters about their own means, over the loss of the model: 1
        is no loss at all
    surrogate_ratio : the same about the centres of the model, as the tree was grown by it
    agreement : share of the rows that rules and model place alike
    n_rows : rows it was measured on
    """

    n_leaves: int
    depth: int
    cost_ratio: float
    surrogate_ratio: float
    agreement: float
    n_rows: int


class Rules:
    """Rules in place of a model; `tell.TELL.to_rules` makes them.

    Attributes
    ----------
    rules : tuple of Rule
        One per leaf, by cluster, those with most rows first.
    price : Price
        On the rows that the tree was grown from.
    tree : tell.export.threshold_tree.ThresholdTree
    """

    def __init__(self, model: ClusterModel, tree: ThresholdTree, X: Floats) -> None:
        self.model, self.tree = model, tree
        self._limits = leaf_limits(tree.feature, tree.threshold, tree.left, tree.right)
        labels = _labels(model, X)
        questions = learn_questions(model, X.shape[1])
        texts = {leaf: _text(limits, questions, X) for leaf, limits in self._limits.items()}
        leaf_of = tree.apply(X)
        clusters = {leaf: int(tree.cluster[leaf]) for leaf in texts}
        self.rules = measured_rules(texts, clusters, leaf_of, labels)
        self.price = _price(model, tree, X, tree.cluster[leaf_of], labels)

    def predict(self, X: Any) -> Ints:
        """The cluster of each row (n,), by the rules alone."""
        return self.tree.predict(_rows_of(self.model, X))

    def measure(self, X: Any) -> Price:
        """The price on other rows."""
        rows = _rows_of(self.model, X)
        labels = _labels(self.model, rows)
        return _price(self.model, self.tree, rows, self.tree.predict(rows), labels)

    def to_sql(
        self, table: str = "rows", *, dialect: str = "standard", keep: Sequence[str] | None = None
    ) -> str:
        """One SELECT that labels the rows of a table by the rules."""
        from tell.export.sql import rules_to_sql

        leaves = [(int(self.tree.cluster[leaf]), limits) for leaf, limits in self._limits.items()]
        return rules_to_sql(self.model, leaves, table, dialect, keep)

    def to_dict(self) -> dict[str, object]:
        """Rules and price as plain numbers and texts, ready for JSON."""
        return {"price": asdict(self.price), "rules": [asdict(rule) for rule in self.rules]}

    def __str__(self) -> str:
        names = cluster_names(self.model)
        lines = [
            f"{_called(rule.cluster, names)} if {rule.text}  "
            f"({rule.n_rows:,} rows, {_percent(rule.precision)} of them right)"
            for rule in self.rules
        ]
        price = self.price
        lines.append(
            f"{price.n_leaves} rules of at most {price.depth} questions; {price.cost_ratio:.3f} "
            f"times the loss of the model, {_percent(price.agreement)} of {price.n_rows:,} rows "
            "placed alike"
        )
        return "\n".join(lines)

    __repr__ = __str__


def learn_rules(
    model: ClusterModel,
    X: Any,
    *,
    n_leaves: int | None = None,
    sample_size: int = 20_000,
    random_state: int = 0,
) -> Rules:
    """Grow rules for a fitted model from rows of whatever it takes; see `to_rules`."""
    if sample_size < 1:
        raise ParameterError(f"sample_size must be at least 1, got {sample_size}")
    rows = _sampled(model, X, sample_size, random_state)
    labels = _labels(model, rows)
    there = len(np.unique(labels))
    wanted = 2 * len(model.cluster_centers_) if n_leaves is None else n_leaves
    if wanted < there:
        raise ParameterError(
            f"n_leaves must be at least {there}, one for every cluster that has rows, got {wanted}"
        )
    costs = _squared(model, rows)
    tree = grow_tree(
        rows,
        costs,
        _centers_in_columns(model, rows, labels),
        labels,
        wanted,
        usable=_readable(getattr(model, "preparation_", None), rows.shape[1]),
    )
    return Rules(model, tree, rows)


def measured_rules(
    texts: Mapping[int, str], clusters: Mapping[int, int], leaf_of: Ints, labels: Ints
) -> tuple[Rule, ...]:
    """Leaves as rules, measured on rows by the leaf (n,) they end in and their cluster (n,).

    A leaf that holds no member of its cluster says nothing and is left out.
    """
    rules = []
    for leaf, text in texts.items():
        cluster = clusters[leaf]
        here, inside = leaf_of == leaf, labels == cluster
        hits, fits, members = int(np.sum(here & inside)), int(here.sum()), int(inside.sum())
        if hits:
            rules.append(Rule(cluster, text, hits / fits, hits / members, fits))
    return tuple(sorted(rules, key=lambda rule: (rule.cluster, -rule.coverage)))


def _rows_of(model: ClusterModel, X: Any) -> Floats:
    """All rows (n, d) as features in the data's units."""
    return np.asarray(_opened(model, X).read().X, np.float64)


def _opened(model: ClusterModel, X: Any) -> Any:
    source = open_source(in_columns_of(model, X))
    needed = model.describe().n_features
    if source.n_features != needed:
        raise InputError(
            f"X needs {needed} columns as in fit, got {source.n_features}; give the columns the "
            "model was fitted with"
        )
    return source


def _sampled(model: ClusterModel, X: Any, size: int, seed: int) -> Floats:
    """A uniform sample of the rows (n, d), in their order: those with the smallest random keys."""
    source = _opened(model, X)
    size = max(1, min(size, MOST_NUMBERS // source.n_features))
    random, keys = np.random.default_rng(seed), np.empty(0)
    kept = np.empty((0, source.n_features))
    for chunk in source.chunks():
        keys = np.concatenate([keys, random.random(len(chunk.X))])
        kept = np.concatenate([kept, np.asarray(chunk.X, np.float64)])
        best = np.sort(np.argsort(keys, kind="stable")[:size])
        keys, kept = keys[best], kept[best]
    if not len(kept):
        raise InputError("X needs at least one row, got none; pass rows like those of the fit")
    return kept


def _labels(model: ClusterModel, X: Floats) -> Ints:
    return np.asarray(unnamed(model.predict, X), np.int64)


def _squared(model: ClusterModel, X: Floats) -> Floats:
    """Squared distances (n, k) to the centres."""
    return np.asarray(unnamed(model.transform, X), np.float64) ** 2


def _centers_in_columns(model: ClusterModel, X: Floats, labels: Ints) -> Floats:
    """Centres (k, d) in the units of the columns.

    Where columns are scaled and nothing else they are the model's own. Behind an encoder, and on
    the sphere, where rows of any length have the same direction, they are the members' means.
    """
    path, centers = model.input_path, np.asarray(model.cluster_centers_, np.float64)
    if isinstance(path, AffineInput) and model.describe().geometry == "euclidean":
        return path.undo(centers)
    means = np.zeros((len(centers), X.shape[1]))
    for j in np.unique(labels):
        means[j] = X[labels == j].mean(axis=0)
    return means


def _price(
    model: ClusterModel, tree: ThresholdTree, X: Floats, placed: Ints, labels: Ints
) -> Price:
    squared = _squared(model, X)
    own = float(squared.min(axis=1).sum())
    there = float(squared[np.arange(len(X)), placed].sum())
    moved = _cost_about_means(model, X, placed)
    return Price(
        n_leaves=tree.n_leaves,
        depth=tree.depth,
        cost_ratio=moved / own if own else 1.0,
        surrogate_ratio=there / own if own else 1.0,
        agreement=float(np.mean(placed == labels)),
        n_rows=len(X),
    )


def _cost_about_means(model: ClusterModel, X: Floats, placed: Ints) -> float:
    """Squared distances of the rows to the best centre of their cluster, in the model's space."""
    Z = np.asarray(unnamed(model.embed, X), np.float64)
    on_sphere = model.describe().geometry == "sphere"
    Z = unit(Z) if on_sphere else Z
    cost = 0.0
    for j in np.unique(placed):
        rows = Z[placed == j]
        mean = rows.mean(axis=0)
        center = unit(mean[None])[0] if on_sphere else mean
        cost += float(np.sum((rows - center) ** 2))
    return cost


def learn_questions(model: ClusterModel, n_features: int) -> list[_Question]:
    """How rules ask for each feature (d,), in the words of the table where there is one."""
    preparation: Preparation | None = getattr(model, "preparation_", None)
    if preparation is not None:
        return [question for column in preparation.used for question in _of_column(column)]
    names = model.describe().feature_names or [f"feature {f}" for f in range(n_features)]
    return [_Question(Question(name)) for name in names]


@dataclass(frozen=True)
class _Question:
    """A question, and whether the feature is the logarithm of what is asked for."""

    question: Question
    is_log: bool = False

    def condition(self, low: float, high: float, values: Reals) -> str:
        if not self.is_log:
            return self.question.condition(low, high, values)
        return self.question.condition(
            float(np.expm1(low)) if np.isfinite(low) else low,
            float(np.expm1(high)) if np.isfinite(high) else high,
            np.expm1(values),
        )


def _of_column(column: Column) -> list[_Question]:
    if column.treatment == "one-hot":
        return [_Question(Question(column.name, level=text)) for text in column.categories or ()]
    if column.treatment == "0/1":
        return [_Question(Question(column.name, level=(column.categories or ("0", "1"))[1]))]
    if column.treatment == "date":
        return [_Question(Question(column.name, is_date=True))] * len(column.features)
    return [_Question(Question(column.name), is_log=column.treatment == "log")]


def _readable(preparation: Preparation | None, n_features: int) -> NDArray[np.bool_]:
    """Which features (d,) a person can be asked for: not the circle of a date."""
    usable = np.ones(n_features, bool)
    if preparation is not None:
        for column in preparation.used:
            if column.treatment == "date":
                usable[preparation.groups[column.name][1:]] = False
    return usable


def _text(limits: Limits, questions: Sequence[_Question], X: Floats) -> str:
    parts = [questions[f].condition(low, high, X[:, f]) for f, (low, high) in limits.items()]
    return " and ".join(parts) or "anything"


def _called(j: int, names: Mapping[int, str]) -> str:
    return f"cluster {j} ({names[j]})" if j in names else f"cluster {j}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
