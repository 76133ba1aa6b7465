"""A small decision tree that imitates the clustering: rules that a person can apply by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from tell.contract import Ints
from tell.explanations.matrices import Matrix, column
from tell.explanations.terms import DATE, Terms
from tell.explanations.view import Assigned
from tell.export.conditions import Limits, Question, leaf_limits
from tell.export.rules import Rule, measured_rules


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
    nodes = tree.tree_
    ways = leaf_limits(nodes.feature, nodes.threshold, nodes.children_left, nodes.children_right)
    texts = {leaf: _text(limits, names, seen, terms) for leaf, limits in ways.items()}
    clusters = {leaf: int(tree.classes_[np.argmax(nodes.value[leaf][0])]) for leaf in ways}
    return measured_rules(texts, clusters, tree.apply(X), labels)


def _text(limits: Limits, names: Sequence[str], X: Matrix, terms: Terms) -> str:
    """The conditions of one leaf, in the terms of the table."""
    parts = []
    for f, (low, high) in limits.items():
        term = terms.of[f]
        level, date = term.level(f), term.kind == DATE
        named = level is not None or date
        question = Question(term.name if named else names[f], level, date)
        parts.append(question.condition(low, high, column(X, f)))
    return " and ".join(parts)
