"""A small decision tree that imitates the clustering: rules that a person can apply by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from tell.contract import Ints, Reals
from tell.explanations.assigned import Assigned
from tell.explanations.matrices import Matrix, column
from tell.explanations.terms import DATE, Terms, day


@dataclass(frozen=True, eq=False)
class Rule:
    """One leaf of the tree: conditions in the data's own units, and the cluster they stand for.

    Measured on the rows that the tree did not learn from: `n_rows` of them fit, `precision` is the
    share of these that belong to the cluster, `coverage` the share of the cluster's rows that fit.
    """

    cluster: int
    text: str
    precision: float
    coverage: float
    n_rows: int


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A decision tree of bounded depth, whose leaves are the `rules`.

    `agreement` is the share of rows it did not see that its rules place as the model does. A leaf
    that holds no member of its cluster among them adds nothing to it, and is left out.
    """

    depth: int
    n_leaves: int
    agreement: float
    rules: tuple[Rule, ...]


def fit_surrogate(
    sample: Assigned, names: Sequence[str], terms: Terms, seed: int
) -> Surrogate | None:
    """Fit on one half of the sampled rows, measure on the other.

    None for fewer than 20 rows, or where the tree finds nothing to ask about.
    """
    from sklearn.tree import DecisionTreeClassifier

    if len(sample) < 20:
        return None
    if sparse.issparse(sample.X):  # trees want 32-bit indices, and columns of their own
        sample = replace(sample, X=sparse.csr_matrix(sample.X))
    else:  # in the units of the table, by features that say something by themselves
        sample = replace(sample, X=np.where(terms.readable, terms.shown(sample.X), 0.0))
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
    check_X = sample.X[check]
    tree.fit(sample.X[learn], sample.labels[learn])
    if tree.get_n_leaves() == 1:
        return None
    rules = _rules(tree, check_X, sample.labels[check], names, sample.X, terms)
    return Surrogate(
        depth=int(tree.get_depth()),
        n_leaves=len(rules),
        agreement=float(np.mean(tree.predict(check_X) == sample.labels[check])),
        rules=rules,
    )


def _rules(
    tree: Any, X: Matrix, labels: Ints, names: Sequence[str], seen: Matrix, terms: Terms
) -> tuple[Rule, ...]:
    """The leaves, measured on rows (n, d) that the tree did not learn from."""
    leaf_of = tree.apply(X)
    rules = []
    for leaf, text in _paths(tree.tree_, names, seen, terms).items():
        cluster = int(tree.classes_[np.argmax(tree.tree_.value[leaf][0])])
        here, inside = leaf_of == leaf, labels == cluster
        hits, fits, members = int(np.sum(here & inside)), int(here.sum()), int(inside.sum())
        if hits:
            rules.append(Rule(cluster, text, hits / fits, hits / members, fits))
    return tuple(sorted(rules, key=lambda rule: (rule.cluster, -rule.coverage)))


def _paths(tree: Any, names: Sequence[str], X: Matrix, terms: Terms) -> dict[int, str]:
    """Conditions that lead to each leaf; several limits on one feature become one interval."""

    def condition(feature: int, low: float, high: float) -> str:
        term = terms.of[feature]
        if (level := term.level(feature)) is not None:  # 0 or 1: one limit between them
            return f"{term.name} {'is not' if np.isinf(low) else 'is'} {level}"
        if term.kind == DATE:
            return _between_days(term.name, low, high)
        name, values = names[feature], column(X, feature)
        if np.isinf(low):
            return f"{name} ≤ {_short(high, values)}"
        if np.isinf(high):
            return f"{name} > {_short(low, values)}"
        return f"{_short(low, values)} < {name} ≤ {_short(high, values)}"

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


def _between_days(name: str, low: float, high: float) -> str:
    """Limits between days, as dates that are still inside.

    >>> _between_days("signup", 19722.5, float("inf")), _between_days("signup", 0.5, 19722.5)
    ('signup from 2024-01-01 on', 'signup from 1970-01-02 to 2023-12-31')
    """
    first, last = math.floor(low) + 1 if np.isfinite(low) else None, high
    if first is None:
        return f"{name} until {day(math.floor(last))}"
    if not np.isfinite(last):
        return f"{name} from {day(first)} on"
    return f"{name} from {day(first)} to {day(math.floor(last))}"


def _short(threshold: float, column: Reals) -> str:
    """The threshold with as few digits as keep every value (n,) on its side.

    >>> _short(1999.5, np.array([1999, 2000])), _short(1.23456, np.array([0.0, 9.0]))
    ('1999.5', '1.235')
    >>> _short(39001.2, np.array([30000.0, 50000.0]))
    '39,000'
    """
    below = column <= threshold
    texts = (f"{threshold:.{digits}g}" for digits in range(4, 18))
    text = next((t for t in texts if np.array_equal(column <= float(t), below)), repr(threshold))
    large = "e+" in text and abs(threshold) < 1e15
    return f"{float(text):,.0f}" if large else text
