"""Are explanations right, and do they serve a reader? Explainers of the field on one table.

    python benchmarks/explanations.py                              # ours and what is cheap
    python benchmarks/explanations.py --peers peers/bin/python     # and SHAP, LIME, ExKMC's program
    python benchmarks/explanations.py --idle                       # note that the machine was idle

Data with planted reasons and real data; every explainer answers the same question of the same rows.
The results stand in benchmarks/results/explanations.json, the tables in docs/interpretability.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.tree import DecisionTreeClassifier

from explainers import EXPLAINERS, Question, tree_of
from explanation_sets import Case, Centres, cases
from reader import reader_test
from recording import record
from tell import TELL
from tell.explanations.gate_measures import (
    diversity,
    faithfulness,
    generalizability,
    uniqueness,
)
from tell.explanations.gates import open_gates

HERE = Path(__file__).resolve().parent
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
    """One data set, clustered twice: from all rows, and from half of them."""

    case: Case
    model: Centres
    again: Centres
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
    def second(self) -> Question:
        """The same rows under the other model."""
        return Question(self.again, self.case.X, self.case.absent, self.rows, self.clusters)


def prepare(case: Case, seed: int) -> Study:
    """Cluster, choose rows that lie in their cluster clearly enough to ask why, move some."""
    random = np.random.default_rng(seed)
    model = fitted(case, case.X, seed)
    half = random.permutation(len(case.X))[: len(case.X) // 2]
    again = matched(model, fitted(case, case.X[half], seed + 1), case.X)
    chosen = random.permutation(len(case.X))[:ROWS]
    rows = case.X[chosen]
    spread = RADIUS * case.X.std(axis=0)
    moved = np.vstack(
        [rows[:MOVED] + spread * random.uniform(-1, 1, rows[:MOVED].shape) for _ in range(TIMES)]
    )
    return Study(case, model, again, rows, model.predict(rows), moved)


def fitted(case: Case, X: np.ndarray, seed: int) -> Centres:
    """A `TELL` by its centres."""
    model = TELL(case.k, geometry=case.geometry, n_init=5, random_state=seed).fit(X)
    return Centres(np.asarray(model.cluster_centers_, float), case.geometry)


def matched(model: Centres, other: Centres, X: np.ndarray) -> Centres:
    """The other model with its clusters numbered like this one's."""
    overlap = np.zeros((len(model.centers), len(other.centers)))
    np.add.at(overlap, (model.predict(X), other.predict(X)), 1)
    order = linear_sum_assignment(-overlap)[1]
    return Centres(other.centers[order], other.geometry)


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


def curve(study: Study, amounts: np.ndarray, *, insert: bool) -> Numbers:
    """Area under the share of rows still in their cluster, columns taken (or given) in order."""
    rows, absent = study.rows, study.case.absent
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


def measure(study: Study, amounts: np.ndarray, again: np.ndarray, seconds: float) -> dict[str, Any]:
    """All measures of one explainer on one set."""
    base = amounts[:ROWS]
    return {
        **recovery(study, base),
        "deletion": interval(curve(study, base, insert=False)),
        "insertion": interval(curve(study, base, insert=True)),
        "infidelity": interval(infidelity(study, base)),
        "sensitivity": interval(sensitivity(amounts)),
        "stability": interval(stability(base, again)),
        "size": interval(size(base)),
        "seconds_per_row": seconds / len(amounts),
    }


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
    for name, explain in EXPLAINERS.items():
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


def planted_members(seeds: range) -> dict[str, Any]:
    """Planted prototypes among the typical members, planted outliers by their score."""
    typical, scores = [], {"ours": [], "IsolationForest": [], "LocalOutlierFactor": []}
    for seed in seeds:
        random = np.random.default_rng(seed)
        means = 6 * random.normal(size=(5, 8))
        X = np.repeat(means, 100, axis=0) + random.normal(size=(500, 8))
        X[::100] = means  # the first row of each group is its true centre
        away = random.choice(
            np.setdiff1d(np.arange(500), np.arange(0, 500, 100)), 15, replace=False
        )
        step = random.normal(size=(15, 8))
        X[away] += 6 * step / np.linalg.norm(step, axis=1, keepdims=True)
        odd = np.isin(np.arange(500), away)
        model = TELL(5, geometry="euclidean", n_init=5, random_state=seed).fit(X)
        near = model.transform(X).min(axis=1)
        for j in range(5):
            members = np.flatnonzero(model.labels_ == j)
            nearest = members[np.argsort(near[members])][:3]
            typical.append(bool(np.isin(nearest, np.arange(0, 500, 100)).any()))
        scores["ours"].append(roc_auc_score(odd, model.outlier_score(X)))
        forest = IsolationForest(random_state=seed).fit(X)
        scores["IsolationForest"].append(roc_auc_score(odd, -forest.score_samples(X)))
        factor = LocalOutlierFactor().fit(X)
        scores["LocalOutlierFactor"].append(roc_auc_score(odd, -factor.negative_outlier_factor_))
    return {
        "prototype_among_three_nearest": interval(typical),
        "outliers": {name: interval(values) for name, values in scores.items()},
    }


def ask_peers(python: str, study: Study) -> dict[str, Any]:
    """What SHAP, LIME and ExKMC answer, in their own environment."""
    main, second = study.main, study.second
    given = {"X": study.case.X, "absent": study.case.absent, "geometry": study.case.geometry}
    given["leaves"] = np.array([times * study.case.k for times in (1, 2, 4)])
    for name, asked in (("main", main), ("again", second)):
        given |= {f"{name} centers": asked.model.centers, f"{name} rows": asked.rows}
        given |= {f"{name} clusters": asked.clusters}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(source, **given)
        script = HERE / "explanation_peers.py"
        subprocess.run([python, str(script), str(source), str(target)], check=True)
        with np.load(target) as found:
            return {name: found[name] for name in found.files}


def compare_explainers(study: Study, peers: dict[str, Any]) -> dict[str, Any]:
    """Every explainer on one set; the deletion curve also row by row against KernelSHAP's."""
    answers = {}
    for name, explain in EXPLAINERS.items():
        began = time.perf_counter()
        amounts = explain(study.main)
        seconds = time.perf_counter() - began
        answers[name] = amounts, explain(study.second), seconds
    for name in ("KernelSHAP", "TreeSHAP", "LIME"):
        if f"main {name}" in peers:
            seconds = float(peers[f"main {name} seconds"])
            answers[name] = peers[f"main {name}"], peers[f"again {name}"], seconds
    found = {name: measure(study, *answer) for name, answer in answers.items()}
    if "KernelSHAP" in answers:
        theirs = np.array(curve(study, answers["KernelSHAP"][0][:ROWS], insert=False))
        for name, (amounts, _, _) in answers.items():
            ours = np.array(curve(study, amounts[:ROWS], insert=False))
            found[name]["deletion_against_kernelshap"] = interval(ours - theirs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="the Python of an environment with shap, lime and ExKMC")
    parser.add_argument("--idle", action="store_true", help="nothing else runs on the machine")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    results: dict[str, Any] = {"sets": {}, "members": planted_members(range(10))}
    versions: dict[str, Any] = {}
    for name, case in cases(SEED).items():
        study = prepare(case, SEED)
        peers = ask_peers(options.peers, study) if options.peers else {}
        versions |= json.loads(str(peers["notes"])) if peers else {}
        results["sets"][name] = {
            "rows": len(case.X),
            "columns": case.X.shape[1],
            "clusters": case.k,
            "found": agreement(case, study.model),
            "explainers": compare_explainers(study, peers),
            "gates": gate_measures(study),
            "trees": prices(study, peers),
            "reader": reader_test(case, SEED),
        }
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    settings = {"seed": SEED, "rows": ROWS, "moved": MOVED, "times": TIMES, "radius": RADIUS}
    settings |= {"steps": STEPS, "subsets": SUBSETS, "top": TOP, "idle": options.idle}
    record("explanations", settings | {"peers": versions}, results, began=began)


if __name__ == "__main__":
    main()
