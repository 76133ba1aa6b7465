"""Which numbers of the report's "How far to trust this" tell clusters from a mere division?

The same rows twice: as they are, and with every column shuffled by itself, so that each keeps its
values and no cluster is left. A number that is as good on the second has nothing to say of trust.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from explanation_sets import CASES
from tell import TELL, explain

SETS = ("planted", "planted, decoys", "genes", "wine", "breast cancer", "digits")
#: Rows at most, and shuffles of each set.
ROWS, SHUFFLES = 600, 2


def trust(seed: int) -> dict[str, Any]:
    """Every number on rows as they are and shuffled: values by set, and the area between both."""
    real: dict[str, dict[str, float]] = {}
    shuffled: dict[str, list[dict[str, float]]] = {}
    for name in SETS:
        case = CASES[name](seed)
        random = np.random.default_rng(seed)
        X = case.X[random.permutation(len(case.X))[:ROWS]]
        real[name] = numbers(X, case.k, seed)
        shuffled[name] = [
            numbers(random.permuted(X, axis=0), case.k, seed) for _ in range(SHUFFLES)
        ]
    draws = [one for some in shuffled.values() for one in some]
    found = {}
    for what in real[SETS[0]]:
        good, bad = [one[what] for one in real.values()], [one[what] for one in draws]
        truth = [1] * len(good) + [0] * len(bad)
        found[what] = {
            "real": {name: round(one[what], 4) for name, one in real.items()},
            "shuffled": {
                name: round(float(np.mean([one[what] for one in some])), 4)
                for name, some in shuffled.items()
            },
            "auc": round(float(roc_auc_score(truth, good + bad)), 4),
        }
    return found


def numbers(X: np.ndarray, k: int, seed: int) -> dict[str, float]:
    """What the report says of trust, for a `TELL` of these rows."""
    model = TELL(k, geometry="euclidean", n_init=5, random_state=seed).fit(X)
    facts = explain(model, X, map_method=None, random_state=seed)
    quality, structure = facts.quality, facts.structure
    faith, stable, rules = quality.faithfulness, quality.stability, quality.surrogate
    return {
        "tighter than structureless rows": structure.gap if structure else 0.0,
        "same partition, half of the rows": stable.resampling.agreement,
        "same partition, other seed": stable.seed.agreement,
        "features named again, half of the rows": stable.resampling.features,
        "features named again, other seed": stable.seed.features,
        "placed alike by simple rules": rules.agreement if rules else 0.0,
        "named features cost more than others": faith.better_than_random,
        "margin lost, measured less by chance": faith.measured - faith.random,
        "stated and measured correlate": faith.correlation,
        "nearest centre is what is predicted": quality.agreement,
    }
