"""Behind an encoder: gates beside those of Interpretable Deep Clustering, and exact directions.

IDC (Svirsky and Lindenbaum, ICML 2024) learns which features to look at together with the clusters.
Its program was read and started, not run to its end: see `IDC_PROGRAM`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explainers import Question, through_encoder
from explanation_measures import SEED, Study, rounded
from explanation_models import by_weights, deep_model
from explanation_sets import CASES, Case, Network
from tell import explain
from tell.explanations.gate_measures import diversity, faithfulness, generalizability, uniqueness
from tell.explanations.gates import open_gates
from tell.metrics import accuracy

#: What the notebook that comes with IDC's program prints for MNIST-10K, one seed, on a GPU.
IDC_NOTEBOOK = {"accuracy": 0.8351, "nmi": 0.7699, "gates": 14.8179}
#: Its program on this machine's processor: github.com/jsvir/idc at 6288558, its own settings, one
#: thread beside other programs; of 700 epochs the first was waited for.
IDC_PROGRAM = {"epochs": 700, "pretraining_epochs": 300, "seconds_first_epoch": 93.5}
#: Features per row: no more than IDC's gates leave open.
OPEN = 14
#: Rows that gates are measured on, half of them to learn from.
GATED_ROWS = 4000
#: Rows of a deep set whose margins are split over the directions.
DIRECTED = 8


def against_idc() -> dict[str, Any]:
    """A `DeepTELL` on the rows of IDC's notebook: its clusters, and its gates of as many pixels."""
    case = CASES["MNIST, deep"](SEED)
    model, seconds = deep_model(case, case.X, SEED, "MNIST, deep")
    labels = model.predict(case.X.astype(np.float32))
    network = by_weights(model)
    facts = explain(
        model, case.X.astype(np.float32), map_method=None, quality=False,
        sample_size=GATED_ROWS, shape=(28, 28), random_state=SEED,
    )  # fmt: skip
    sampled = facts.sample.rows
    rows, clusters, classes = case.X[sampled], facts.sample.labels, case.classes[sampled]
    asked = Question(network, case.X, case.absent, rows, network.predict(rows))
    kinds = {
        "facts.gates": facts.gates(OPEN).rows,
        "integrated gradients": open_gates(through_encoder(asked, steps=16), OPEN),
        "chance": open_gates(np.random.default_rng(SEED).random(rows.shape), OPEN),
    }
    return {
        "notebook": IDC_NOTEBOOK,
        "program": IDC_PROGRAM,
        "rows": len(sampled),
        "open": OPEN,
        "seconds_fit": round(seconds, 1),
        "accuracy": round(accuracy(case.classes, labels), 4),
        "accuracy_greedy": round(matched_greedily(case.classes, labels), 4),
        "gates": {
            kind: four_measures(network, rows, gates.astype(float), clusters, classes)
            for kind, gates in kinds.items()
        },
    }


def four_measures(
    network: Network, rows: np.ndarray, gates: np.ndarray, clusters: np.ndarray, classes: np.ndarray
) -> dict[str, Any]:
    """IDC's measures; generalizability both for the clusters and for the true digits."""
    cut = len(rows) // 2
    halves = slice(cut), slice(cut, None)
    k = len(network.centers)
    found = {"open": rounded(gates.sum(axis=1).mean())}
    for name, y in (("generalizability", clusters), ("generalizability_digits", classes)):
        found[name] = rounded(generalizability(*((rows[h], gates[h], y[h]) for h in halves)))
    few = slice(500)  # one question to the network per feature
    found["faithfulness"] = rounded(
        faithfulness(rows[few], gates[few], network.predict, classes[few])
    )
    found["diversity"] = rounded(diversity(gates, clusters, k))
    found["uniqueness"] = rounded(uniqueness(rows, gates))
    return found


def matched_greedily(classes: np.ndarray, labels: np.ndarray) -> float:
    """Accuracy as IDC's program counts it: the largest overlap first, each class given once."""
    counts = np.zeros((labels.max() + 1, classes.max() + 1))
    np.add.at(counts, (labels, classes), 1)
    total = 0.0
    for _ in range(len(counts)):
        j, c = np.unravel_index(counts.argmax(), counts.shape)
        total += counts[j, c]
        counts[j], counts[:, c] = -1, -1
    return total / len(labels)


def directions(name: str, case: Case, study: Study) -> dict[str, Any]:
    """The margin over the embedding's directions, and how far each can be said in columns."""
    model, seconds = deep_model(case, case.X, SEED, name)
    chosen = np.random.default_rng(SEED).permutation(len(case.X))[:DIRECTED].tolist()
    side = int(np.sqrt(case.X.shape[1]))
    facts = explain(
        model, case.X.astype(np.float32), rows=chosen, map_method=None, quality=False,
        sample_size=2000, shape=(side, side), random_state=SEED,
    )  # fmt: skip
    found = [facts.directions(point.row) for point in facts.points]
    rests = [
        abs(sum(one.amount for one in split) - point.margin)
        for split, point in zip(found, facts.points, strict=True)
    ]
    strongest = sum(one.amount for split in found for one in split[:3])
    missed, meant = completeness(study)
    return {
        "rest": float(max(rests)),
        "three_strongest": rounded(strongest / sum(point.margin for point in facts.points)),
        "explained": [round(one.explained, 4) for one in sorted(found[0], key=lambda d: d.index)],
        "redrawn": [
            rounded(np.mean([one.redrawn for split in found for one in split if one.index == d]))
            for d in range(len(found[0]))
        ],
        "gradients_off": rounded(np.median(missed) / np.median(meant)),
        "accuracy": rounded(accuracy(case.classes, model.labels_)),
        "seconds_fit": round(seconds, 1),
    }


def completeness(study: Study) -> tuple[np.ndarray, np.ndarray]:
    """By row how far integrated gradients miss the margin less that of the mean row, and that."""
    asked = study.unmoved
    rows, start = study.model.squared(asked.rows), study.model.squared(asked.absent[None])[0]
    n, j, k = np.arange(len(rows)), asked.clusters, asked.runner_up()
    meant = rows[n, k] - rows[n, j] - (start[k] - start[j])
    said = through_encoder(asked, steps=256).sum(axis=1)
    return np.abs(said - meant), np.abs(meant)
