"""A soft partition of rows from their neighbour graph, found without labels.

k-means on pixels or on an autoencoder's features ends in poor optima; the neighbour graph of the
same rows does not: laid out in a few dimensions, its dense regions are nearly Gaussian.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, eigsh
from sklearn.cluster import AgglomerativeClustering
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor

from tell.core.assignment import DenseRows
from tell.core.batches import seeded_generator
from tell.core.engine import fit_centers
from tell.estimators.deep.recipes.communities import GraphChoice, choose_number, too_few
from tell.estimators.deep.recipes.graph_features import BLOCK_ROWS, GraphFeatures
from tell.estimators.deep.recipes.layout import Edges, lay_out
from tell.estimators.deep.recipes.neighbours import (
    Neighbours,
    carry,
    memberships,
    nearest_known,
    nearest_neighbours,
)
from tell.progress import progress

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

GRAPH_ROWS = 100_000  # all pairs are compared
DIMENSIONS = 10
DENSE_ROWS = 1000  # up to here all eigenvectors at once are faster
MIXTURE_ROWS = 5000
MIXTURE_STARTS = 5
SMALLEST_VARIANCE = 1e-3
LINKAGES = ("single", "average", "ward")
FEWEST_ROWS_PER_CLUSTER = 5


class Graph(NamedTuple):
    """Nearest neighbours, which depend on the rows alone: one search serves all runs of a fit."""

    rows: Tensor  # (m,) numbers of the rows in the graph
    neighbour: Tensor  # (m, k) positions among them, the nearest first; (m, 0) if too few rows
    distance: Tensor  # (m, k)
    others: Tensor  # (n - m, k) for the rows that are not in the graph: their neighbours in it


def find_graph(
    x: Tensor,
    n_clusters: int,
    *,
    rows: int,
    neighbours: int,
    seed: int,
    visible: bool = False,
) -> Graph:
    """Find the nearest neighbours of rows or images.

    Parameters
    ----------
    x : Tensor (n, d) or (n, c, h, w)
    n_clusters : int
    rows : int
        Most rows in the graph; the others follow their neighbours among these.
    neighbours : int
        Of every row.
    seed : int
        Of the choice of rows.
    visible : bool
        Show a progress bar.
    """
    order = torch.randperm(len(x), generator=seeded_generator(seed))
    inside = order[:rows].sort().values
    raw = x[inside.to(x.device)].cpu()
    features = GraphFeatures(raw)
    chosen = features(raw)
    k = min(neighbours, len(chosen) - 1)
    found = Neighbours(torch.empty(len(chosen), 0, dtype=torch.long), torch.empty(len(chosen), 0))
    with progress("neighbours", 1.0, visible=visible) as bar:
        if not _is_small(chosen, n_clusters):
            found = nearest_neighbours(chosen, k, report=bar.update)
    outside = order[rows:].sort().values
    others = [torch.empty(0, k, dtype=torch.int)]
    for start in range(0, len(outside), BLOCK_ROWS):
        part = outside[start : start + BLOCK_ROWS].to(x.device)
        others.append(nearest_known(chosen, features(x[part].cpu()), k).int())
    return Graph(inside, *found, torch.cat(others))


def find_partition(
    x: Tensor, graph: Graph, n_clusters: int, *, seed: int, epochs: int, visible: bool = False
) -> Tensor:
    """Return soft assignments (n, k) of rows or images: layout of the graph, mixture in it.

    A graph of as many separate pieces as clusters needs neither.

    Parameters
    ----------
    x : Tensor (n, d) or (n, c, h, w)
    graph : Graph
        Of the same rows.
    n_clusters : int
    seed : int
        Of the layout and of the mixture.
    epochs : int
        Of the layout.
    visible : bool
        Show a progress bar.
    """
    if graph.neighbour.shape[1]:
        weighted = neighbour_graph(Neighbours(graph.neighbour, graph.distance))
        found = pieces(weighted, n_clusters)
        if found is None:
            points = _points(weighted, seed=seed, epochs=epochs, visible=visible)
            found = mixture(points.double().numpy(), n_clusters, seed)
    else:
        raw = x[graph.rows.to(x.device)].cpu()
        found = _one_hot(_k_means(GraphFeatures(raw)(raw), n_clusters, seed), n_clusters)
    partition = torch.empty(len(x), n_clusters)
    partition[graph.rows] = found
    outside = torch.ones(len(x), dtype=torch.bool)
    outside[graph.rows] = False
    partition[outside] = carry(found, graph.others)
    return partition


def _points(weighted: sp.csr_array, *, seed: int, epochs: int, visible: bool) -> Tensor:
    """Lay the graph out in a few dimensions (n, d)."""
    with progress("layout", epochs, visible=visible) as bar:
        return lay_out(
            _edges(weighted),
            spectral_start(weighted, min(DIMENSIONS, weighted.shape[0] - 2), seed),
            epochs=epochs,
            generator=seeded_generator(seed),
            report=bar.update,
        )


def count_clusters(graph: Graph, seed: int, most: int | None) -> GraphChoice:
    """How many clusters the graph has, by its communities."""
    if not graph.neighbour.shape[1]:
        return too_few(len(graph.rows))
    weighted = neighbour_graph(Neighbours(graph.neighbour, graph.distance))
    return choose_number(weighted, seed, most)


def _is_small(chosen: Tensor, n_clusters: int) -> bool:
    """Whether there are too few rows, or too few different ones, for a graph to say anything."""
    few = len(chosen) < FEWEST_ROWS_PER_CLUSTER * n_clusters
    return few or bool((chosen == chosen[0]).all())


def neighbour_graph(found: Neighbours) -> sp.csr_array:
    """Return the symmetric graph of the nearest neighbours, weighted in (0, 1] (n, n)."""
    n, k = found.row.shape
    weight = memberships(found.distance).numpy().ravel()
    starts = np.arange(0, n * k + 1, k)
    one_way = sp.csr_array((weight, found.row.numpy().ravel(), starts), shape=(n, n))
    other_way = one_way.T.tocsr()
    # The probability that at least one of the two directions is there.
    return (one_way + other_way - one_way.multiply(other_way)).tocsr()


def pieces(graph: sp.csr_array, n_clusters: int) -> Tensor | None:
    """Return the parts (n, k) of a graph between which there is no edge, if there are k of them.

    Laid out side by side their distances mean nothing, and a mixture may rather split the largest.

    >>> two = sp.csr_array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    >>> pieces(two, 2).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    >>> pieces(two, 3) is None
    True
    """
    count, labels = connected_components(graph, directed=False)
    return _one_hot(labels.astype(np.int64), n_clusters) if count == n_clusters else None


def spectral_start(graph: sp.csr_array, dimensions: int, seed: int) -> Tensor:
    """Return the graph's smoothest coordinates (n, d), spread over [-10, 10]."""
    n = graph.shape[0]
    scale = sp.diags_array(1 / np.sqrt(graph.sum(axis=1)))
    normalised = (scale @ graph @ scale).astype(np.float64)
    random = np.random.default_rng(seed)
    if n <= DENSE_ROWS:
        vectors = np.linalg.eigh(normalised.toarray())[1][:, -dimensions - 1 :]
    else:
        try:
            _, vectors = eigsh(
                normalised, dimensions + 1, which="LA", v0=random.standard_normal(n), tol=1e-3
            )
        except ArpackError:  # many separate parts: any start will do
            vectors = random.standard_normal((n, dimensions + 1))
    vectors = vectors[:, -2::-1]  # largest first, without the constant one
    spread = 10 * vectors / np.abs(vectors).max()
    return torch.from_numpy(spread + random.normal(0, 1e-4, spread.shape)).float()


def mixture(points: Floats, n_clusters: int, seed: int) -> Tensor:
    """Return the memberships (n, k) of the likeliest Gaussian mixture among several starts."""
    sample = np.random.default_rng(seed).permutation(len(points))[:MIXTURE_ROWS]
    starts = _candidates(points[sample], n_clusters, seed)
    fits = (_fit_mixture(points[sample], labels, n_clusters) for labels in starts)
    sound = {
        fitted: (_least_rows(fitted, len(sample)) > points.shape[1], fitted.lower_bound_)
        for fitted in fits
        if fitted is not None
    }
    best = max(sound, key=sound.__getitem__, default=None)
    if best is not None:
        best = _fit_mixture(points, best.predict(points), n_clusters) or best
        return torch.from_numpy(best.predict_proba(points)).float()
    return _one_hot(_k_means(torch.from_numpy(points), n_clusters, seed), n_clusters)


def _least_rows(fitted: GaussianMixture, n_rows: int) -> float:
    """How many of the rows the smallest component has.

    One that has no more of them than dimensions is as likely as its smallest variances allow, and
    would win over mixtures of real clusters.
    """
    return float(fitted.weights_.min() * n_rows)


def _candidates(points: Floats, n_clusters: int, seed: int) -> Iterator[Labels]:
    """Give partitions of different shapes: compact ones, and chains of many small ones."""
    rows = torch.from_numpy(points)
    for start in range(MIXTURE_STARTS):
        yield _k_means(rows, n_clusters, seed + start)
    for factor in (5, 10, 20):
        small = min(factor * n_clusters, len(points) // 5)
        if small <= n_clusters:
            continue
        fitted = fit_centers(DenseRows(rows), small, geometry="euclidean", seed=seed)
        labels, centers = fitted.assignment.labels.numpy(), fitted.centers.numpy()
        for linkage in LINKAGES:
            grouped = AgglomerativeClustering(n_clusters, linkage=linkage).fit_predict(centers)
            yield grouped[labels]


def _fit_mixture(points: Floats, labels: Labels, n_clusters: int) -> GaussianMixture | None:
    """Start a mixture from a partition; None where it has a cluster of one row or none."""
    sizes = np.bincount(labels, minlength=n_clusters)
    if sizes.min() < 2:
        return None
    groups = [points[labels == label] for label in range(n_clusters)]
    floor = SMALLEST_VARIANCE * np.eye(points.shape[1])
    start = GaussianMixture(
        n_clusters,
        weights_init=sizes / len(points),
        means_init=np.stack([group.mean(0) for group in groups]),
        precisions_init=np.stack(
            [np.linalg.inv(np.atleast_2d(np.cov(group.T)) + floor) for group in groups]
        ),
        reg_covar=SMALLEST_VARIANCE,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the likelihood is what decides
        return start.fit(points)


def _k_means(x: Tensor, n_clusters: int, seed: int) -> Labels:
    fitted = fit_centers(DenseRows(x), n_clusters, geometry="euclidean", seed=seed)
    labels: Labels = fitted.assignment.labels.numpy()
    return labels


def _edges(graph: sp.csr_array) -> Edges:
    upper = sp.triu(graph, 1).tocoo()
    head, tail = (torch.from_numpy(part.astype(np.int64)) for part in (upper.row, upper.col))
    weight = torch.from_numpy(upper.data.astype(np.float32))
    return Edges(head, tail, weight / weight.max())


def _one_hot(labels: Labels, n_clusters: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.from_numpy(labels), n_clusters).float()
