"""How many clusters a neighbour graph has: its communities, found by modularity.

A partition's modularity is the share of the graph's weight inside its groups, less what a random
graph with the same degrees would have there (Newman, 2006). It is brought up as Blondel et al.
(2008) do: rows move to the group that they are bound to most, then groups become the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

#: A round of moves ends when a pass gains less than this.
LEAST_GAIN = 1e-7
MOST_PASSES = 50
#: Two communities that are bound this much, in shares of what chance would bind, are one group.
LEAST_BOND = 0.25


def communities(graph: sp.csr_array, seed: int) -> Labels:
    """Groups (n,) of the rows of a symmetric weighted graph (n, n), numbered from 0."""
    random = np.random.default_rng(seed)
    labels = np.arange(graph.shape[0])
    level = graph.tocsr().astype(np.float64)
    while True:
        found = _moved(level, random)
        names, found = np.unique(found, return_inverse=True)
        if len(names) == level.shape[0]:
            return labels
        labels = found[labels]
        level = joined(level, found)


def joined(graph: sp.csr_array, labels: Labels) -> sp.csr_array:
    """The graph between groups: weights inside of one stand on the diagonal."""
    n, k = len(labels), int(labels.max()) + 1
    member = sp.csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, k))
    return (member.T @ graph @ member).tocsr()


def modularity(graph: sp.csr_array, labels: Labels) -> float:
    """Σ_c (inside_c / 2m − (degree_c / 2m)²).

    >>> pairs = sp.csr_array(np.kron(np.eye(2), 1 - np.eye(2)))
    >>> modularity(pairs, np.array([0, 0, 1, 1])), modularity(pairs, np.zeros(4, np.int64))
    (0.5, 0.0)
    """
    between = joined(graph, labels)
    total = float(between.sum())
    degrees = np.asarray(between.sum(axis=1)).ravel()
    return float(between.diagonal().sum() / total - np.square(degrees / total).sum())


def _moved(graph: sp.csr_array, random: np.random.Generator) -> Labels:
    """Move rows one by one to the group that they are bound to most, until nothing is gained."""
    n, total = graph.shape[0], float(graph.sum())
    degree = np.asarray(graph.sum(axis=1)).ravel().tolist()
    group, weight = list(range(n)), list(degree)  # of every row; summed degrees of every group
    starts, columns, values = (part.tolist() for part in (graph.indptr, graph.indices, graph.data))
    for _ in range(MOST_PASSES):
        gained = 0.0
        for i in random.permutation(n).tolist():
            own, mine = group[i], degree[i]
            bound: dict[int, float] = {own: 0.0}
            for place in range(starts[i], starts[i + 1]):
                j = columns[place]
                if j != i:
                    bound[group[j]] = bound.get(group[j], 0.0) + values[place]
            weight[own] -= mine
            gains = {c: there - mine * weight[c] / total for c, there in bound.items()}
            best = max(gains, key=lambda c: (gains[c], c == own))
            gained += gains[best] - gains[own]
            group[i] = best
            weight[best] += mine
        if 2 * gained / total < LEAST_GAIN:
            break
    return np.array(group)


@dataclass(frozen=True, eq=False)
class GraphChoice:
    """How many clusters a neighbour graph has.

    Attributes
    ----------
    n_clusters : the recommended number; 1 if the graph shows no groups
    runner_up : the next best number, where there is one
    reasons : the same in words
    numbers, modularity : (m,) numbers of groups, from the graph's communities down to one, and the
        modularity of the partition into so many
    bonds : (m,) how strongly the two groups were bound whose merger led to each number, in shares
        of what chance would bind
    n_rows : rows in the graph
    """

    n_clusters: int
    runner_up: int | None
    reasons: str
    numbers: Labels
    modularity: Floats
    bonds: Floats
    n_rows: int

    def __str__(self) -> str:
        return self.reasons

    def to_json(self) -> dict[str, Any]:
        """Everything as plain numbers, lists and texts."""
        plain = {name: getattr(self, name) for name in ("n_clusters", "runner_up", "reasons")}
        curves = {name: getattr(self, name).tolist() for name in ("numbers", "modularity")}
        return plain | curves | {"bonds": self.bonds[1:].tolist(), "n_rows": self.n_rows}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        curves = {name: np.asarray(content[name]) for name in ("numbers", "modularity")}
        bonds = np.array([np.inf, *content["bonds"]])  # the first number is not a merger's
        return cls(**{**content, **curves, "bonds": bonds})


def merged(graph: sp.csr_array, labels: Labels) -> tuple[Labels, Floats, Floats]:
    """Merge groups down to one, each time the two that are bound most for their size.

    Returns the numbers of groups (m,), their modularity (m,), and how strongly the two were bound
    whose merger led to each (m,): the weight between them by what chance would put there. Halves of
    one group are bound about as much as chance binds them; groups that are real, far less.
    """
    between = joined(graph, labels).toarray()
    between /= between.sum()
    numbers, found, bonds = [], [], [np.inf]
    while True:
        degree = between.sum(axis=1)
        numbers.append(len(between))
        found.append(float(np.trace(between) - np.square(degree).sum()))
        if len(between) == 1:
            return np.array(numbers), np.array(found), np.array(bonds)
        bound = between / np.outer(degree, degree)
        np.fill_diagonal(bound, -np.inf)
        i, j = np.unravel_index(int(bound.argmax()), bound.shape)
        bonds.append(float(bound[i, j]))
        between[i] += between[j]
        between[:, i] += between[:, j]
        between = np.delete(np.delete(between, j, axis=0), j, axis=1)


def choose_number(graph: sp.csr_array, seed: int, most: int | None) -> GraphChoice:
    """The number of groups of a neighbour graph (n, n), at most `most`.

    Its communities, merged as long as two are bound at least a quarter as much as by chance.
    """
    numbers, found, bonds = merged(graph, communities(graph, seed))
    apart = np.flatnonzero(bonds < LEAST_BOND)
    best = int(apart[0]) - 1 if len(apart) else len(numbers) - 1
    best = max(best, int(np.flatnonzero(numbers <= (most or numbers[0]))[0]))
    n, k = graph.shape[0], int(numbers[best])
    if k == 1:
        text = (
            "No cluster structure found (k = 1): all parts of the neighbour graph are bound at "
            f"least {LEAST_BOND:.0%} as much as by chance."
        )
        return GraphChoice(1, None, text, numbers, found, bonds, n)
    # Of the two neighbours, the one that the graph decided against more narrowly.
    fewer = best == 0 or bonds[best + 1] * bonds[best] > LEAST_BOND**2
    closer = best + 1 if fewer else best - 1
    runner_up = int(numbers[closer]) if numbers[closer] > 1 else None
    text = (
        f"{k} clusters: the two groups of the neighbour graph that are bound most are bound "
        f"{bonds[best + 1]:.0%} as much as by chance (modularity {found[best]:.2f})."
    )
    text += "" if runner_up is None else f" Next best: {runner_up}."
    return GraphChoice(k, runner_up, text, numbers, found, bonds, n)


def too_few(n_rows: int) -> GraphChoice:
    """The answer where there are not enough different rows for a graph."""
    text = (
        f"No cluster structure found (k = 1): {n_rows} rows are too few, or too much alike, for a "
        "neighbour graph."
    )
    one = np.ones(1, np.int64)
    return GraphChoice(1, None, text, one, np.zeros(1), np.full(1, np.inf), n_rows)
