"""Is there any structure? The clusters against those that the same k makes of structureless rows.

k-means divides anything. What tells groups from a mere division is that they are tighter than the
clusters of rows that have none: the gap of Tibshirani, Walther and Hastie (2001), here against
several kinds of structureless rows, of which the one that comes closest decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tell.choosing.outliers import farthest_out
from tell.choosing.structureless import compressed, structureless
from tell.contract import AffineInput, EncodedInput, Floats, Ints, unit
from tell.explanations.counterfactual import Columns
from tell.explanations.matrices import dense
from tell.explanations.view import Assigned, ModelView
from tell.explanations.words import percent

#: Clusters that are tighter than those of structureless rows by this share are groups.
CLEAR_GAP = 0.08
#: Below this they are no tighter.
NO_GAP = 0.05
#: Rows that are looked at, and draws of each kind of structureless rows.
MAX_ROWS, N_DRAWS = 800, 3
#: Rows per cluster that a judgement needs, and rows in all.
ROWS_PER_CLUSTER, LEAST_ROWS = 5, 30
#: Share of the rows, those farthest from all others, without a say: one alone stretches all ranges.
OUTLIERS = 0.01
#: Wider rows are looked at on this many main axes.
MAX_COLUMNS = 64

YES, WEAK, NO = "yes", "weak", "no"


@dataclass(frozen=True, eq=False)
class Structure:
    """Whether there are groups in the rows, or only a division of them.

    Attributes
    ----------
    verdict : "yes", "weak" or "no"
    gap : how much tighter the clusters are than those of the closest structureless rows: a share of
        the latter's loss; below 0 they are looser
    share : loss of the clusters, as a share of the loss of a single cluster
    reference : the smallest such share of structureless rows
    n_rows, n_references : rows that were looked at, and sets of structureless rows of that size
    summary : the same in words
    """

    verdict: str
    gap: float
    share: float
    reference: float
    n_rows: int
    n_references: int
    summary: str


def judge_structure(
    view: ModelView, sample: Assigned, columns: Columns, seed: int
) -> Structure | None:
    """Cluster sampled rows and structureless ones alike; None for one cluster or too few rows.

    None, too, where an encoder was trained: it draws the rows it has learned together, whatever
    they are, and structureless rows that it has not learned stay loose.
    """
    import torch

    k, path = view.n_clusters, view.path
    if isinstance(path, EncodedInput):
        return None
    random = np.random.default_rng(seed)
    few = np.sort(random.permutation(len(sample))[:MAX_ROWS])
    if k == 1 or len(few) < max(LEAST_ROWS, ROWS_PER_CLUSTER * k):
        return None
    rows, categories, embed = _prepared(view, path, sample.X[few], columns, seed)
    rows = np.delete(rows, farthest_out(torch.from_numpy(rows), OUTLIERS).numpy(), axis=0)
    if not np.ptp(rows, axis=0).any():
        return None
    found = _share(view, embed(rows), seed)
    draws = [
        _share(view, embed(draw), seed + i)
        for i, draw in enumerate(structureless(rows, categories, random, N_DRAWS))
    ]
    if found is None or None in draws:
        return None
    reference = min(draw for draw in draws if draw is not None)
    gap = 1 - found / reference if reference > 0 else 0.0
    verdict = YES if gap >= CLEAR_GAP else WEAK if gap >= NO_GAP else NO
    text = _words(verdict, gap, k)
    return Structure(verdict, gap, found, reference, len(rows), len(draws), text)


def _prepared(
    view: ModelView, path: AffineInput, X: object, columns: Columns, seed: int
) -> tuple[Floats, list[Ints], Callable[[Floats], Floats]]:
    """Rows to draw alike, their groups of category features, and how rows reach the centres."""
    if sparse.issparse(X):
        return compressed(X, seed, 30), [], _placed(view)
    rows = path.apply(np.asarray(dense(X), np.float64))
    if rows.shape[1] > MAX_COLUMNS:
        return compressed(rows, seed, MAX_COLUMNS), [], _placed(view)
    return rows, [np.array(part) for part in columns.categories.values()], _placed(view)


def _placed(view: ModelView) -> Callable[[Floats], Floats]:
    return unit if view.on_sphere else lambda rows: rows


def _share(view: ModelView, Z: Floats, seed: int) -> float | None:
    """Loss of k clusters of layer rows (n, p), as a share of the loss of one."""
    import torch

    from tell.core.assignment import DenseRows
    from tell.core.engine import fit_centers

    rows = DenseRows(torch.from_numpy(np.ascontiguousarray(Z - _middle(view, Z))))
    one = fit_centers(rows, 1, geometry=view.geometry, seed=seed).loss
    if not one > 0:
        return None
    options = {"geometry": view.geometry, "n_init": 3, "tol": 1e-3, "seed": seed}
    return fit_centers(rows, view.n_clusters, **options).loss / one  # type: ignore[arg-type]


def _middle(view: ModelView, Z: Floats) -> Floats | float:
    return 0.0 if view.on_sphere else Z.mean(axis=0)  # large means would take the digits


def _words(verdict: str, gap: float, k: int) -> str:
    if verdict == NO:
        return (
            "No cluster structure found: rows without any, spread alike, give clusters as tight. "
            "These divide the rows, but no gaps set them apart."
        )
    tighter = f"{percent(gap)} tighter than {k} clusters of structureless rows that spread alike"
    if verdict == WEAK:
        return (
            f"Weak cluster structure: the clusters are only {tighter}. Read them as a division of "
            "the rows rather than as groups of their own."
        )
    return f"There is cluster structure: the clusters are {tighter}."
