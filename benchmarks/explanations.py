"""Are explanations right, and do they serve a reader? Explainers of the field on one table.

    python benchmarks/explanations.py                              # ours and what is cheap
    python benchmarks/explanations.py --peers peers/bin/python     # and SHAP, LIME, ExKMC, CLASSIX
    python benchmarks/explanations.py --only "MNIST" members       # these parts anew, no others
    python benchmarks/explanations.py --peers … --only timing --idle   # times alone

Data with planted reasons and real data; every explainer answers the same question of the same rows.
Parts that the results have already are not measured again, so that a run may be interrupted and
taken up; `--only` measures its parts anew. The times are a part of their own (`timing`): they need
an idle machine, and some minutes. The results stand in benchmarks/results/explanations.json, the
tables in docs/interpretability.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from explainers import explainers_for
from explanation_gates import against_idc, directions
from explanation_measures import (
    MOVED,
    RADIUS,
    ROWS,
    SEED,
    STEPS,
    SUBSETS,
    TIMES,
    TOP,
    Study,
    agreement,
    by_replacement,
    curve,
    decoys,
    gate_measures,
    interval,
    measure,
    prices,
)
from explanation_models import fitted, matched
from explanation_sets import CASES, Case, as_arrays
from explanation_trust import trust
from reader import by_members, printed_groups, reader_test, scored, split_rows
from recording import RESULTS, record
from tell import TELL

HERE = Path(__file__).resolve().parent
#: Rows that are explained where only time is measured.
TIMED_ROWS = 24
PEERS = ("KernelSHAP", "TreeSHAP", "LIME")


def prepare(name: str, case: Case, seed: int = SEED, *, twice: bool = True) -> Study:
    """Cluster, once more from half of the rows, choose rows to ask about, move some a little."""
    random = np.random.default_rng(seed)
    model = fitted(case, case.X, seed, name)
    half = random.permutation(len(case.X))[: len(case.X) // 2]
    again = None
    if twice and not case.deep:
        again = matched(model, fitted(case, case.X[half], seed + 1, name), case.X)
    chosen = random.permutation(len(case.X))[:ROWS]
    rows = case.X[chosen]
    spread = RADIUS * case.X.std(axis=0)
    moved = np.vstack(
        [rows[:MOVED] + spread * random.uniform(-1, 1, rows[:MOVED].shape) for _ in range(TIMES)]
    )
    return Study(case, model, again, rows, model.predict(rows), moved)


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


def ask_peers(python: str, job: str, given: dict[str, Any]) -> dict[str, Any]:
    """What a program of others answers, in its own environment."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(source, **given)
        script = HERE / "explanation_peers.py"
        subprocess.run([python, str(script), job, str(source), str(target)], check=True)
        with np.load(target) as found:
            return {name: found[name] for name in found.files}


def questions(study: Study) -> dict[str, Any]:
    """What SHAP, LIME and ExKMC are asked of a set, as arrays."""
    given: dict[str, Any] = {"X": study.case.X, "absent": study.case.absent}
    given["leaves"] = np.array([times * study.case.k for times in (1, 2, 4)])
    for name, asked in (("main", study.main), ("again", study.second)):
        if asked is None:
            continue
        given |= {f"{name} {part}": array for part, array in as_arrays(asked.model).items()}
        given |= {f"{name} rows": asked.rows, f"{name} clusters": asked.clusters}
    return given


def compare_explainers(study: Study, peers: dict[str, Any]) -> dict[str, Any]:
    """Every explainer on one set; the deletion curve also row by row against KernelSHAP's."""
    answers = {}
    for name, explain in explainers_for(study.model).items():
        answers[name] = explain(study.main), study.second and explain(study.second)
    for name in PEERS:
        if f"main {name}" in peers:
            answers[name] = peers[f"main {name}"], peers.get(f"again {name}")
    found = {name: measure(study, *answer) for name, answer in answers.items()}
    if "KernelSHAP" in answers:
        theirs = np.array(curve(study, answers["KernelSHAP"][0][:ROWS], insert=False))
        for name, (amounts, _) in answers.items():
            ours = np.array(curve(study, amounts[:ROWS], insert=False))
            found[name]["deletion_against_kernelshap"] = interval(ours - theirs)
    return found


def measure_set(name: str, python: str | None) -> dict[str, Any]:
    """One set: explainers, gates, trees and the reader's test; behind an encoder directions."""
    began = time.perf_counter()
    case = CASES[name](SEED)
    study = prepare(name, case)
    peers = ask_peers(python, "explain", questions(study)) if python else {}
    found = {
        "rows": len(case.X),
        "columns": case.X.shape[1],
        "clusters": case.k,
        "deep": case.deep,
        "found": agreement(case, study.model),
        "explainers": compare_explainers(study, peers),
        "peers": json.loads(str(peers["notes"])) if peers else {},
    }
    if case.deep:
        found["directions"] = directions(name, case, study)
        return found | {"seconds": round(time.perf_counter() - began, 1)}
    found |= {
        "gates": gate_measures(study),
        "trees": prices(study, peers),
        "reader": reader_test(case, SEED),
    }
    if case.geometry == "euclidean":  # sparse rows start at 0, and have no middle to speak of
        found["replacement"] = by_replacement(study, peers)
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def classix(python: str | None) -> dict[str, Any]:
    """CLASSIX on the sets of moderate width, and what a reader gets from its groups."""
    if python is None:
        return {}
    found = {}
    for name in ("planted", "planted, decoys", "wine", "breast cancer", "digits"):
        case = CASES[name](SEED)
        seen, unseen = split_rows(case, SEED)
        given = {"seen": case.X[seen], "unseen": case.X[unseen], "k": case.k}
        answer = ask_peers(python, "classix", given)
        rows = dict(zip(case.names, case.X[unseen].T, strict=True))
        text = printed_groups(answer["groups"], answer["group clusters"], case.names)
        truth = case.groups if case.groups is not None else case.classes
        found[name] = {
            "radius": float(answer["radius"]),
            "clusters": int(answer["clusters"]),
            "groups": len(answer["groups"]),
            "agreement": round(float(adjusted_rand_score(truth[seen], answer["labels"])), 4),
            "reader": scored(lambda j, text=text: (by_members, text(j)), rows, answer["said"]),
            "seconds_per_row": float(answer["seconds"]),
            "words": float(answer["words"]),
            "path": float(answer["path"]),
            "version": str(answer["version"]),
        }
    return found


def timing(python: str | None) -> dict[str, Any]:
    """Seconds per row of ours and of the peers on every set; theirs with what they fit before."""
    found: dict[str, Any] = {}
    for name, make in CASES.items():
        study = prepare(name, make(SEED), twice=False)
        few = study.few(TIMED_ROWS)
        who, explain = next(iter(explainers_for(study.model).items()))
        found[name] = {who: quickest(partial(explain, few)) / TIMED_ROWS}
        if python:
            given = questions(study)
            given |= {"main rows": few.rows, "main clusters": few.clusters}
            answer = ask_peers(python, "time", given)
            for peer in PEERS:
                if f"main {peer} seconds" in answer:
                    found[name][peer] = float(answer[f"main {peer} seconds"]) / TIMED_ROWS
        print(f"{name}: timed", flush=True)
    return found


def quickest(ask: Callable[[], object], times: int = 3) -> float:
    """The shortest of a few runs, after one that warms up."""
    spans = []
    for _ in range(times + 1):
        began = time.perf_counter()
        ask()
        spans.append(time.perf_counter() - began)
    return min(spans[1:])


def main() -> None:
    parts: dict[str, Callable[[str | None], dict[str, Any]]] = {
        **{name: partial(measure_set, name) for name in CASES},
        "decoys": lambda _: decoys(range(10)),
        "members": lambda _: planted_members(range(10)),
        "trust": lambda _: trust(SEED),
        "IDC": lambda _: against_idc(),
        "CLASSIX": classix,
        "timing": timing,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="the Python of an environment with what others wrote")
    parser.add_argument("--idle", action="store_true", help="nothing else runs on the machine")
    parser.add_argument("--only", nargs="+", choices=list(parts), help="measure these parts anew")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, run in parts.items():
        if name in options.only if options.only else name not in measured():
            began = time.perf_counter()
            found = run(options.peers)
            if name == "timing":
                found = {"idle": options.idle, "sets": found}
            settings = {"seed": SEED, "rows": ROWS, "moved": MOVED, "times": TIMES}
            settings |= {"radius": RADIUS, "steps": STEPS, "subsets": SUBSETS, "top": TOP}
            record("explanations", settings, measured() | {name: found}, began=began)
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


def measured() -> dict[str, Any]:
    """The parts that are in the results."""
    kept = RESULTS / "explanations.json"
    return json.loads(kept.read_text())["results"] if kept.exists() else {}


if __name__ == "__main__":
    main()
