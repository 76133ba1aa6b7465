"""What benchmarks/explanations.py measures of explanations, of gates and of trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from explainers import (
    Question,
    exact,
    exact_about_absent,
    explainers_for,
    tree_of,
)
from explanation_sets import Case, Centres, planted
from tell import TELL
from tell.explanations.gate_measures import (
    diversity,
    faithfulness,
    generalizability,
    uniqueness,
)
from tell.explanations.gates import open_gates

SEED = 0
#: Rows that are explained, those that are also moved a little, and how often.
ROWS, MOVED, TIMES = 48, 8, 3
#: How far a row is moved, in deviations of its columns.
RADIUS = 0.05
#: Points of a deletion or insertion curve, and sets of columns that infidelity takes away.
STEPS, SUBSETS = 20, 40
#: Features that are compared when the model is fitted again.
TOP = 5

Numbers = list[float]


@dataclass(frozen=True)
class Study:
    """One data set, clustered twice: from all rows, and from half of them.

    Behind an encoder the second takes as long as the first: it is left out.
    """

    case: Case
    model: Centres
    again: Centres | None
    rows: np.ndarray
    clusters: np.ndarray
    moved: np.ndarray

    @property
    def main(self) -> Question:
        """The rows, followed by the moved copies of the first ones, which keep their cluster."""
        rows = np.vstack([self.rows, self.moved])
        copied = np.tile(self.clusters[:MOVED], TIMES)
        clusters = np.concatenate([self.clusters, copied])
        return Question(self.model, self.case.X, self.case.absent, rows, clusters)

    @property
    def unmoved(self) -> Question:
        """The rows alone."""
        return self.few(len(self.rows))

    def few(self, n: int) -> Question:
        """The first n rows."""
        rows, clusters = self.rows[:n], self.clusters[:n]
        return Question(self.model, self.case.X, self.case.absent, rows, clusters)

    @property
    def second(self) -> Question | None:
        """The same rows under the other model."""
        if self.again is None:
            return None
        return Question(self.again, self.case.X, self.case.absent, self.rows, self.clusters)


def recovery(study: Study, amounts: np.ndarray) -> dict[str, Any]:
    """How far planted columns come before noise, and how often one of them, or a decoy, is first.

    For a row of group j with runner-up k the columns of both speak; those of other groups neither
    count for nor against an explanation.
    """
    case = study.case
    if case.groups is None:
        return {}
    group_of = [
        np.bincount(case.groups[study.model.predict(case.X) == j], minlength=case.k).argmax()
        for j in range(case.k)
    ]
    planted = set().union(*case.markers)
    noise = [f for f in range(case.X.shape[1]) if f not in planted | case.decoys]
    areas, first, decoy = [], [], []
    for row, j, k in zip(amounts, study.clusters, study.main.runner_up(), strict=False):
        true = sorted(case.markers[group_of[j]] | case.markers[group_of[k]])
        columns = [*true, *noise]
        areas.append(roc_auc_score([1] * len(true) + [0] * len(noise), row[columns]))
        best = np.flatnonzero(row == row.max())  # of columns that tie, each is named as often
        first.append(np.mean([f in planted for f in best]))
        decoy.append(np.mean([f in case.decoys for f in best]))
    return {"recovery": interval(areas), "named_first": interval(first), "decoy": interval(decoy)}


def decoys(seeds: range) -> dict[str, Any]:
    """How often a planted column, or a decoy, is named first, over all rows of many sets.

    `standing_out` is the share of the rows with a decoy first where its value lies farther out than
    that of the column it follows: the row's own noise, which k-means cannot tell from a reason.
    """
    first, wrong, farther = [], [], []
    for seed in seeds:
        case = planted(seed, decoys=True)
        model = TELL(case.k, geometry="euclidean", n_init=5, random_state=seed).fit(case.X)
        centres = Centres(np.asarray(model.cluster_centers_, float), "euclidean")
        asked = Question(centres, case.X, case.absent, case.X, centres.predict(case.X))
        named = exact(asked).argmax(axis=1)
        is_decoy = np.isin(named, sorted(case.decoys))
        first.append(float(np.mean(named < 12)))
        wrong.append(float(is_decoy.mean()))
        rows, columns = np.flatnonzero(is_decoy), named[is_decoy]
        own, other = (centres.centers[j] for j in (asked.clusters, asked.runner_up()))
        side = np.sign(own - other) * (case.X - (own + other) / 2)
        farther += (side[rows, columns] > side[rows, columns - 12]).tolist()
    return {
        "sets": len(seeds),
        "rows": 600 * len(seeds),
        "named_first": interval(first),
        "decoy": interval(wrong),
        "standing_out": round(float(np.mean(farther)), 4),
    }


def curve(
    study: Study, amounts: np.ndarray, *, insert: bool, absent: np.ndarray | None = None
) -> Numbers:
    """Area under the share of rows still in their cluster, columns taken (or given) in order.

    What is taken gets the value of the row `absent` (d,), or one for every row (n, d).
    """
    rows = study.rows
    absent = study.case.absent if absent is None else absent
    rank = np.argsort(ranked(amounts, SEED), axis=1)
    kept = []
    for count in np.unique(np.rint(np.linspace(0, rows.shape[1], STEPS + 1)).astype(int)):
        there = rank < count if insert else rank >= count
        kept.append(study.model.predict(np.where(there, rows, absent)) == study.clusters)
    return np.trapezoid(np.array(kept, float), dx=1 / (len(kept) - 1), axis=0).tolist()


def ranked(amounts: np.ndarray, seed: int) -> np.ndarray:
    """Columns (n, d) by amount, largest first; those that tie in an order by chance."""
    ties = np.random.default_rng(seed).random(amounts.shape)
    return np.lexsort((ties, -amounts), axis=1)


def by_replacement(study: Study, peers: dict[str, Any]) -> dict[str, Any]:
    """Deletion areas by what takes the place of a column that is taken away.

    The mean row suits the split from it and KernelSHAP, which starts there too, the middle of the
    two centres the split about it. Values of other rows, drawn at random, suit nobody. With the
    difference between our two splits, and between ours about the middle and KernelSHAP.
    """
    asked = study.unmoved
    own, other = (study.model.centers[j] for j in (asked.clusters, asked.runner_up()))
    drawn = np.random.default_rng(SEED).integers(len(asked.X), size=asked.rows.shape)
    instead = {
        "the mean row": asked.absent,
        "values of other rows": asked.X[drawn, np.arange(asked.X.shape[1])],
        "the middle of the two centres": (own + other) / 2,
    }
    answers = {"ours, exact": exact(asked), "from the mean row": exact_about_absent(asked)}
    if "main KernelSHAP" in peers:
        answers["KernelSHAP"] = peers["main KernelSHAP"][:ROWS]
    found: dict[str, Any] = {}
    for what, absent in instead.items():
        areas = {
            name: curve(study, amounts, insert=False, absent=absent)
            for name, amounts in answers.items()
        }
        found[what] = {name: interval(area) for name, area in areas.items()}
        for name in list(areas)[1:]:
            found[what][f"against {name}"] = interval(
                np.subtract(areas["ours, exact"], areas[name])
            )
    return found


def infidelity(study: Study, amounts: np.ndarray) -> Numbers:
    """E[(Iᵀφ − Δf)²] / E[Δf²] over random sets of columns taken away (Yeh et al. 2019).

    Explanations of other units are first scaled as suits them best, row by row, as the authors do.
    """
    random = np.random.default_rng(SEED)
    found = []
    for row, j, amount in zip(study.rows, study.clusters, amounts, strict=True):
        away = random.random((SUBSETS, len(row))) < 0.2
        changed = np.where(away, study.case.absent, row)
        lost = study.model.margin(row[None], j) - study.model.margin(changed, j)
        said = away @ amount
        scale = (said @ lost) / max(float(said @ said), 1e-12)
        found.append(float(np.mean((scale * said - lost) ** 2) / max(np.mean(lost**2), 1e-12)))
    return found


def sensitivity(amounts: np.ndarray) -> Numbers:
    """The largest relative change of the amounts when a row moves a little."""
    base, moved = amounts[:MOVED], amounts[ROWS:].reshape(TIMES, MOVED, -1)
    change = np.linalg.norm(moved - base, axis=2).max(axis=0)
    return (change / np.maximum(np.linalg.norm(base, axis=1), 1e-12)).tolist()


def stability(first: np.ndarray, second: np.ndarray) -> Numbers:
    """Jaccard index of the strongest features, of the model and of one fitted to half the rows."""
    tops = [ranked(amounts, seed)[:, :TOP] for seed, amounts in enumerate((first, second))]
    pairs = [(set(a), set(b)) for a, b in zip(*(top.tolist() for top in tops), strict=True)]
    return [len(a & b) / len(a | b) for a, b in pairs]


def size(amounts: np.ndarray) -> Numbers:
    """Columns that carry nine tenths of all that speaks for the cluster."""
    positive = np.sort(np.maximum(amounts, 0), axis=1)[:, ::-1]
    total = positive.sum(axis=1, keepdims=True)
    share = np.cumsum(positive, axis=1) / np.where(total > 0, total, 1)
    return (np.argmax(share >= 0.9, axis=1) + 1.0).tolist()


def measure(study: Study, amounts: np.ndarray, again: np.ndarray | None) -> dict[str, Any]:
    """All measures of one explainer on one set."""
    base = amounts[:ROWS]
    return {
        **recovery(study, base),
        "deletion": interval(curve(study, base, insert=False)),
        "insertion": interval(curve(study, base, insert=True)),
        "infidelity": interval(infidelity(study, base)),
        "sensitivity": interval(sensitivity(amounts)),
        "size": interval(size(base)),
    } | ({} if again is None else {"stability": interval(stability(base, again))})


def interval(values: Any) -> dict[str, float]:
    """Mean and half of its 95 % confidence interval."""
    numbers = np.asarray(values, float)
    half = 1.96 * numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return {"mean": round(float(numbers.mean()), 5), "half": round(float(half), 5)}


def gate_measures(study: Study) -> dict[str, Any]:
    """The four IDC measures of explainers that can answer for hundreds of rows."""
    case, model = study.case, study.model
    random = np.random.default_rng(SEED)
    rows = case.X[random.permutation(len(case.X))[:400]]
    labels, n_open = model.predict(rows), max(3, round(np.sqrt(case.X.shape[1])))
    cut = len(rows) // 2
    found = {}
    for name, explain in explainers_for(model).items():
        asked = Question(model, case.X, case.absent, rows, labels)
        gates = open_gates(explain(asked), n_open).astype(float)
        parts = [(rows[part], gates[part], labels[part]) for part in (slice(cut), slice(cut, None))]
        found[name] = {
            "open": n_open,
            "faithfulness": rounded(faithfulness(rows, gates, model.predict, labels)),
            "generalizability": rounded(generalizability(*parts)),
            "diversity": rounded(diversity(gates, labels, case.k)),
            "uniqueness": rounded(uniqueness(rows, gates)),
        }
    return found


def agreement(case: Case, model: Centres) -> float | None:
    """How far the clusters are the planted groups (adjusted Rand index), where there are any."""
    if case.groups is None:
        return None
    return round(float(adjusted_rand_score(case.groups, model.predict(case.X))), 4)


def rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


def prices(study: Study, peers: dict[str, np.ndarray]) -> dict[str, Any]:
    """What trees of k, 2k and 4k leaves cost against the clustering: ours, CART, ExKMC's own."""
    case, model = study.case, study.model
    labels = model.predict(case.X)
    found = {}
    for times in (1, 2, 4):
        n_leaves = times * case.k
        cart = DecisionTreeClassifier(max_leaf_nodes=n_leaves, random_state=0).fit(case.X, labels)
        ours = tree_of(model, case.X, n_leaves)
        line = {
            "ours": price(study, ours.predict(case.X)) | {"depth": ours.depth},
            "CART": price(study, cart.predict(case.X)) | {"depth": int(cart.get_depth())},
        }
        if f"tree {n_leaves}" in peers:
            line["ExKMC"] = price(study, peers[f"tree {n_leaves}"])
        found[f"{times}k"] = line
    return found


def price(study: Study, placed: np.ndarray) -> dict[str, float]:
    """Cost about the means of the tree's clusters over that of the model, and agreement."""
    Z, squared = study.model.placed(study.case.X), study.model.squared(study.case.X)
    cost = 0.0
    for j in np.unique(placed):
        mean = Z[placed == j].mean(axis=0)
        if study.model.geometry == "sphere":
            mean = mean / max(float(np.linalg.norm(mean)), 1e-12)
        cost += float(((Z[placed == j] - mean) ** 2).sum())
    agreement = float(np.mean(placed == squared.argmin(axis=1)))
    ratio = cost / float(np.maximum(squared.min(axis=1), 0).sum())
    return {"cost_ratio": round(ratio, 5), "agreement": round(agreement, 4)}
