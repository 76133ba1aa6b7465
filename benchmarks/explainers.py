"""The explainers of benchmarks/explanations.py, one function each.

Every one gets a `Question` and answers with amounts (n, d): how much each column of each row speaks
for the cluster that the row is in. SHAP and LIME stand in explanation_peers.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from sklearn.tree import DecisionTreeClassifier

from explanation_sets import Centres, Network
from tell.explanations.attribution import integrated_gradients
from tell.explanations.points import margin_contributions
from tell.export.threshold_tree import LEAF, ThresholdTree, grow_tree


@dataclass(frozen=True)
class Question:
    """Rows (n, d) and their clusters (n,); the model, and the rows X it was fitted to."""

    model: Centres
    X: np.ndarray
    absent: np.ndarray
    rows: np.ndarray
    clusters: np.ndarray

    def runner_up(self) -> np.ndarray:
        """The nearest other centre (n,)."""
        squared = self.model.squared(self.rows)
        squared[np.arange(len(squared)), self.clusters] = np.inf
        return squared.argmin(axis=1)


def exact(question: Question) -> np.ndarray:
    """Ours: the margin over the runner-up, split over the columns as the product splits it.

    That is about the middle of the two centres; in sparse rows on the sphere, as the texts are,
    from 0, no words at all.
    """
    return _split(question, from_zero=True)


def about_the_middle(question: Question) -> np.ndarray:
    """The same, about the middle of the two centres for texts too."""
    return _split(question, from_zero=False)


def _split(question: Question, *, from_zero: bool) -> np.ndarray:
    model = question.model
    view: Any = SimpleNamespace(centers=model.centers, on_sphere=model.geometry == "sphere")
    Z = model.placed(question.rows)
    others = question.runner_up()
    return margin_contributions(view, Z, question.clusters, others, from_zero=from_zero)


def exact_about_absent(question: Question) -> np.ndarray:
    """The same margin about the absent row: (W_j − W_k)(z − z_absent), its Shapley values."""
    model = question.model
    own, other = (model.centers[j] for j in (question.clusters, question.runner_up()))
    start = model.placed(question.absent[None])
    return 2 * (own - other) * (model.placed(question.rows) - start)


def neon(question: Question) -> np.ndarray:
    """NEON's relevance for k-means (Kauffmann et al. 2022): all other clusters, softly.

    h_k = w_kᵀx + b_k is the margin over cluster k, the cluster's score their smallest; it is given
    to the k by a soft minimum and from each to the columns about the middle of the two centres.
    """
    model, own = question.model, question.clusters
    Z, n = model.placed(question.rows), len(question.rows)
    squared = model.squared(question.rows)
    margins = squared - squared[np.arange(n), own][:, None]
    margins[np.arange(n), own] = np.inf
    score = margins.min(axis=1, keepdims=True)
    stiffness = 1 / max(float(np.abs(score).mean()), 1e-12)
    share = np.exp(-stiffness * (margins - score))
    share /= share.sum(axis=1, keepdims=True)
    found = np.zeros(Z.shape)
    for k in range(len(model.centers)):
        here = own != k
        first, second = model.centers[own[here]], model.centers[k]
        parts = 2 * (first - second) * (Z[here] - (first + second) / 2)
        total = margins[here, k][:, None]
        safe = np.where(np.abs(total) > 1e-12, total, np.inf)
        found[here] += share[here, k][:, None] * score[here] * parts / safe
    return found


def permutation(question: Question) -> np.ndarray:
    """Permutation importance: how many of a cluster leave it when a column is shuffled."""
    random = np.random.default_rng(0)
    X = question.X[random.permutation(len(question.X))[:300]]
    labels = question.model.predict(X)
    k, d = len(question.model.centers), X.shape[1]
    left = np.zeros((k, d))
    for f in range(d):
        shuffled = X.copy()
        shuffled[:, f] = random.permutation(X[:, f])
        gone = question.model.predict(shuffled) != labels
        left[:, f] = [gone[labels == j].mean() if np.any(labels == j) else 0.0 for j in range(k)]
    return left[question.clusters]


def cart(question: Question) -> np.ndarray:
    """The path of a row through a decision tree that imitates the labels."""
    labels = question.model.predict(question.X)
    leaves = 2 * len(question.model.centers)
    tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0).fit(question.X, labels)
    nodes = tree.tree_
    return _paths(
        nodes.feature, nodes.threshold, nodes.children_left, nodes.children_right, question.rows
    )


def cost_tree(question: Question) -> np.ndarray:
    """The path of a row through our tree of thresholds (IMM, then ExKMC)."""
    tree = tree_of(question.model, question.X, 2 * len(question.model.centers))
    return _paths(tree.feature, tree.threshold, tree.left, tree.right, question.rows)


def tree_of(model: Centres, X: np.ndarray, n_leaves: int) -> ThresholdTree:
    """Our tree for a clustering; on the sphere about the members' means, as in the product."""
    labels = model.predict(X)
    centers = model.centers
    if model.geometry == "sphere":
        centers = np.array(
            [X[labels == j].mean(axis=0) if np.any(labels == j) else X.mean(axis=0)
             for j in range(len(centers))]
        )  # fmt: skip
    return grow_tree(X, np.maximum(model.squared(X), 0), centers, labels, n_leaves)


def gradients(question: Question) -> np.ndarray:
    """Ours for a deep model: integrated gradients of the margin from the mean row."""
    return through_encoder(question, steps=256)


def one_gradient(question: Question) -> np.ndarray:
    """The gradient of the margin at the row, times the difference from the mean row."""
    return through_encoder(question, steps=1)


def through_encoder(question: Question, steps: int) -> np.ndarray:
    """The product's own attribution, for each pair of cluster and runner-up."""
    path = torch_path(question.model)
    pairs = np.stack([question.clusters, question.runner_up()], axis=1)
    found = np.zeros(question.rows.shape)
    for j, k in np.unique(pairs, axis=0):
        here = np.all(pairs == (j, k), axis=1)
        rows = question.rows[here]
        if steps == 1:
            found[here] = slope(path, rows, j, k) * (rows - question.absent)
        else:
            found[here] = integrated_gradients(
                path, rows, int(j), int(k), question.absent, n_steps=steps
            )[0]
    return found


def slope(path: Any, rows: np.ndarray, j: int, k: int) -> np.ndarray:
    """The gradient (n, d) of the margin between clusters j and k."""
    x = path.tensor(rows).requires_grad_()
    scores = path.scores(x)
    (found,) = torch.autograd.grad((scores[:, j] - scores[:, k]).sum(), x)
    return found.numpy().astype(float)


def torch_path(model: Centres) -> Any:
    """A network by its weights as `tell.contract.EncodedInput` shows it: rows in, scores out."""
    if not isinstance(model, Network):
        raise TypeError("gradients need a model behind an encoder")
    layers = [(torch.tensor(w), torch.tensor(b)) for w, b in model.layers]
    centers = torch.tensor(model.centers, dtype=torch.float32)

    def scores(z: torch.Tensor) -> torch.Tensor:
        for i, (weight, bias) in enumerate(layers):
            z = (torch.relu(z) if i else z) @ weight.T + bias
        return 2 * torch.nn.functional.normalize(z, dim=1) @ centers.T - 2  # eq. 12

    return SimpleNamespace(tensor=lambda X: torch.tensor(X, dtype=torch.float32), scores=scores)


def chance(question: Question) -> np.ndarray:
    """Noise: what an explanation that knows nothing gets."""
    seed = int(abs(question.model.centers).sum() * 1e6) % 2**32
    return np.random.default_rng(seed).normal(size=question.rows.shape)


def _paths(
    feature: np.ndarray,
    threshold: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    rows: np.ndarray,
) -> np.ndarray:
    """Columns on the way of each row: the first question weighs 1, the second 1/2, and so on."""
    found = np.zeros(rows.shape)
    for i, row in enumerate(rows):
        node, depth = 0, 1
        while left[node] != LEAF:
            f = feature[node]
            found[i, f] = max(found[i, f], 1 / depth)
            node = left[node] if row[f] <= threshold[node] else right[node]
            depth += 1
    return found


EXPLAINERS = {
    "ours, exact": exact,
    "about the middle": about_the_middle,
    "from the mean row": exact_about_absent,
    "NEON": neon,
    "permutation": permutation,
    "CART": cart,
    "IMM/ExKMC tree": cost_tree,
    "chance": chance,
}
#: Behind an encoder columns do not reach the centres linearly: no exact split, and no NEON.
DEEP_EXPLAINERS = {
    "ours, integrated gradients": gradients,
    "one gradient": one_gradient,
    "permutation": permutation,
    "CART": cart,
    "IMM/ExKMC tree": cost_tree,
    "chance": chance,
}


def explainers_for(model: Centres) -> dict[str, Any]:
    """Those that can answer for a model."""
    return DEEP_EXPLAINERS if isinstance(model, Network) else EXPLAINERS
