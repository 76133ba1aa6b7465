"""A reader's test without readers: what a printed explanation conveys of a cluster.

A simple program gets nothing but the printed explanation of one cluster and says which of 200
unseen rows belong to it. Balanced accuracy: 0.5 is what one gets without reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score

from explanation_sets import Case
from tell import TELL, explain
from tell.explanations import Explanation

UNSEEN = 200
#: A reader looks at three columns, as the summaries name them.
NAMED = 3

Reader = Callable[[str, dict[str, np.ndarray]], np.ndarray]
LIMIT = re.compile(r"(?:(?P<low>\S+) < )?(?P<name>.+?) (?P<sign>≤|>) (?P<limit>\S+)")
MEANS = re.compile(r"(?P<name>.+?): mean (?P<inside>\S+), .*?others (?P<outside>[^\s;]+)")


def number(text: str) -> float:
    """A number as it is printed, with its own minus and thousands set apart."""
    return float(text.replace("−", "-").replace(",", ""))


def by_rules(text: str, rows: dict[str, np.ndarray]) -> np.ndarray:
    """A row belongs where it fits one of the lines of conditions."""
    n = len(next(iter(rows.values())))
    fits_any = np.zeros(n, bool)
    for line in text.splitlines():
        fits = np.ones(n, bool)
        for part in line.split(" and "):
            found = LIMIT.fullmatch(part)
            if found is None:
                raise ValueError(f"a reader cannot read {part!r}")
            values, limit = rows[found["name"]], number(found["limit"])
            fits &= values <= limit if found["sign"] == "≤" else values > limit
            if found["low"] is not None:
                fits &= values > number(found["low"])
        fits_any |= fits
    return fits_any


def by_means(text: str, rows: dict[str, np.ndarray]) -> np.ndarray:
    """A row belongs where most columns lie nearer to the members' mean than to the others'."""
    votes = []
    for line in text.splitlines():
        found = MEANS.match(line)
        if found is None:
            raise ValueError(f"a reader cannot read {line!r}")
        values = rows[found["name"]]
        inside, outside = number(found["inside"]), number(found["outside"])
        votes.append(np.abs(values - inside) < np.abs(values - outside))
    return np.mean(votes, axis=0) > 0.5


def by_members(text: str, rows: dict[str, np.ndarray]) -> np.ndarray:
    """A row belongs where its nearest printed member is one of the cluster's own."""
    own, nearest = [], []
    for line in text.splitlines():
        whose, _, cells = line.partition(": ")
        pairs = (cell.rsplit(" = ", 1) for cell in cells.split("; "))
        member = {name: number(value) for name, value in pairs}
        own.append(whose == "member")
        nearest.append(sum((rows[name] - value) ** 2 for name, value in member.items()))
    return np.array(own)[np.argmin(nearest, axis=0)]


def printed_rules(rules: Any, j: int) -> str:
    """The rules of one cluster, as they are printed."""
    return "\n".join(rule.text for rule in rules if rule.cluster == j)


def printed_means(facts: Explanation, j: int) -> str:
    """The named columns of one cluster with their statistics."""
    return "\n".join(f"{one.name}: {one.numbers()}" for one in facts.clusters[j].features[:NAMED])


def printed_chance(facts: Explanation, j: int, random: np.random.Generator) -> str:
    """The same statistics of columns drawn at random: decoration."""
    own, others = facts.clusters[j], [c for c in facts.clusters if c.index != j and c.size]
    sizes = np.array([c.size for c in others])
    lines = []
    for f in random.choice(facts.data.n_features, NAMED, replace=False):
        outside = np.average([c.mean[f] for c in others], weights=sizes)
        name = facts.data.feature_names[f]
        lines.append(f"{name}: mean {own.mean[f]:.4g}, median 0, spread 0; others {outside:.4g}")
    return "\n".join(lines)


def printed_members(facts: Explanation, j: int, n: int = 3) -> str:
    """The typical members of the cluster, and of the others, with four digits."""
    lines = []
    for cluster in facts.clusters:
        who = "member" if cluster.index == j else "other"
        for member in cluster.prototypes[:n]:
            cells = zip(facts.data.feature_names, np.ravel(member.values), strict=True)
            lines.append(f"{who}: " + "; ".join(f"{name} = {value:.4g}" for name, value in cells))
    return "\n".join(lines)


def printed_groups(
    groups: np.ndarray, clusters: np.ndarray, names: list[str]
) -> Callable[[int], str]:
    """The groups that a cluster and the others are made of (CLASSIX), with four digits."""

    def text(j: int) -> str:
        lines = []
        for group, cluster in zip(groups, clusters, strict=True):
            cells = "; ".join(f"{n} = {v:.4g}" for n, v in zip(names, group, strict=True))
            lines.append(f"{'member' if cluster == j else 'other'}: {cells}")
        return "\n".join(lines)

    return text


def split_rows(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows that a model sees, and of those it does not."""
    order = np.random.default_rng(seed).permutation(len(case.X))
    unseen = order[: min(UNSEEN, len(order) // 3)]
    return np.setdiff1d(order, unseen), unseen


def reader_test(case: Case, seed: int) -> dict[str, Any]:
    """Balanced accuracy of a reader by kind of explanation, over the clusters of one set."""
    random = np.random.default_rng(seed)
    random.permutation(len(case.X))  # the columns by chance are drawn after the rows
    seen, unseen = split_rows(case, seed)
    model = TELL(case.k, geometry=case.geometry, n_init=5, random_state=seed).fit(case.X[seen])
    facts = explain(
        model, case.X[seen], feature_names=case.names, map_method=None, random_state=seed
    )
    rows = dict(zip(case.names, case.X[unseen].T, strict=True))
    truth = model.predict(case.X[unseen])
    cost_rules = model.to_rules(case.X[seen])
    named = {f"feature {f}": name for f, name in enumerate(case.names)}
    cart = facts.quality.surrogate.rules if facts.quality and facts.quality.surrogate else ()
    kinds: dict[str, Callable[[int], tuple[Reader, str]]] = {
        "named columns": lambda j: (by_means, printed_means(facts, j)),
        "columns by chance": lambda j: (by_means, printed_chance(facts, j, random)),
        "typical members": lambda j: (by_members, printed_members(facts, j)),
        "CART rules": lambda j: (by_rules, printed_rules(cart, j)),
        "IMM/ExKMC rules": lambda j: (
            by_rules,
            re.sub(r"feature \d+", lambda m: named[m[0]], printed_rules(cost_rules.rules, j)),
        ),
    }
    return {"unseen": len(unseen)} | {
        kind: scored(answer, rows, truth) for kind, answer in kinds.items()
    }


def scored(
    answer: Callable[[int], tuple[Reader, str]], rows: dict[str, np.ndarray], truth: np.ndarray
) -> dict[str, float]:
    """Mean over the clusters that unseen rows belong to, and the length of what was read."""
    scores, words = [], []
    for j in np.unique(truth):
        read, text = answer(int(j))
        said = read(text, rows) if text else np.zeros(len(truth), bool)
        scores.append(balanced_accuracy_score(truth == j, said))
        words.append(len(text.split()))
    half = 1.96 * np.std(scores, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else 0.0
    return {
        "mean": round(float(np.mean(scores)), 4),
        "half": round(float(half), 4),
        "words": round(float(np.mean(words)), 1),
    }
