"""A small decision tree that imitates the clustering: rules that a person can apply by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tell.contract import Reals
from tell.explanations.assigned import Assigned


@dataclass(frozen=True, eq=False)
class Rule:
    """The most important leaf of one cluster.

    `text` holds conditions in the data's own units; `precision` is the share of rows in the leaf
    that belong to the cluster, `coverage` the share of the cluster that falls in the leaf.
    """

    cluster: int
    text: str
    precision: float
    coverage: float


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A decision tree of bounded depth; `agreement` is measured on rows it did not see."""

    depth: int
    n_leaves: int
    agreement: float
    rules: tuple[Rule, ...]


def fit_surrogate(sample: Assigned, names: Sequence[str], seed: int) -> Surrogate | None:
    """Fit on one half of the sampled rows, measure on the other.

    None for fewer than 20 rows, or where the tree finds nothing to ask about.
    """
    from sklearn.tree import DecisionTreeClassifier

    if len(sample) < 20:
        return None
    k = len(np.unique(sample.labels))
    order = np.random.default_rng(seed).permutation(len(sample))
    # Every other row of every cluster, so that the tree sees all of them.
    order = order[np.argsort(sample.labels[order], kind="stable")]
    learn, check = order[::2], order[1::2]
    tree = DecisionTreeClassifier(
        max_depth=max(4, math.ceil(math.log2(k)) + 2),  # room for k leaves, short enough to read
        max_leaf_nodes=max(8, 2 * k),
        random_state=seed,
    )
    tree.fit(sample.X[learn], sample.labels[learn])
    if tree.get_n_leaves() == 1:
        return None
    return Surrogate(
        depth=int(tree.get_depth()),
        n_leaves=int(tree.get_n_leaves()),
        agreement=float(np.mean(tree.predict(sample.X[check]) == sample.labels[check])),
        rules=_rules(tree, sample, names),
    )


def _rules(tree: Any, sample: Assigned, names: Sequence[str]) -> tuple[Rule, ...]:
    leaf_of = tree.apply(sample.X)
    paths = _paths(tree.tree_, names, sample.X)
    rules = []
    for cluster in np.unique(sample.labels):
        inside = sample.labels == cluster
        leaves, counts = np.unique(leaf_of[inside], return_counts=True)
        precision = counts / np.array([np.sum(leaf_of == leaf) for leaf in leaves])
        coverage = counts / inside.sum()
        best = int(np.argmax(precision * coverage))
        text = paths[int(leaves[best])]
        rules.append(Rule(int(cluster), text, float(precision[best]), float(coverage[best])))
    return tuple(rules)


def _paths(tree: Any, names: Sequence[str], X: Reals) -> dict[int, str]:
    """Conditions that lead to each leaf; several limits on one feature become one interval."""

    def condition(feature: int, low: float, high: float) -> str:
        name, column = names[feature], X[:, feature]
        if np.isinf(low):
            return f"{name} ≤ {_short(high, column)}"
        if np.isinf(high):
            return f"{name} > {_short(low, column)}"
        return f"{_short(low, column)} < {name} ≤ {_short(high, column)}"

    texts: dict[int, str] = {}
    stack: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
    while stack:
        node, limits = stack.pop()
        if tree.children_left[node] == -1:
            texts[node] = " and ".join(condition(f, *between) for f, between in limits.items())
            continue
        feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
        low, high = limits.get(feature, (-np.inf, np.inf))
        stack.append((tree.children_left[node], limits | {feature: (low, min(high, threshold))}))
        stack.append((tree.children_right[node], limits | {feature: (max(low, threshold), high)}))
    return texts


def _short(threshold: float, column: Reals) -> str:
    """The threshold with as few digits as keep every value (n,) on its side.

    >>> _short(1999.5, np.array([1999, 2000])), _short(1.23456, np.array([0.0, 9.0]))
    ('1999.5', '1.235')
    """
    below = column <= threshold
    texts = (f"{threshold:.{digits}g}" for digits in range(4, 18))
    return next((t for t in texts if np.array_equal(column <= float(t), below)), repr(threshold))
