"""Topics in embeddings of texts: a head of ours beside k-means, UMAP + HDBSCAN and BERTopic.

    python benchmarks/text.py                                  # ours and scikit-learn's
    python benchmarks/text.py --peers peers/bin/python         # and the others: see text_peers.py
    python benchmarks/text.py --peers … --only "BERTopic"      # these methods anew, no others

Everybody gets the very same vectors. Sections of Debian's archive serve for the scores alone: no
setting was chosen by them, and of several runs the one with the smallest own loss is the chosen
one. Results that are there already are not measured again. They stand in
benchmarks/results/text.json, the table in docs/benchmarks.md.
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
from sklearn.cluster import KMeans
from torch import nn

from recording import RESULTS, record
from tell import TELL, DeepTELL, TellRecipe, Views, evaluate
from text_sets import SETS, Texts

HERE = Path(__file__).resolve().parent
SEEDS = list(range(5))
N_INIT = 10  # of k-means and TELL, and of TELL before the head
WIDTH = 64  # of the head's embedding
PEERS = ("UMAP + HDBSCAN", "UMAP + k-means", "BERTopic", "BERTopic, told k")
NOISE = -1

Found = tuple[np.ndarray, float]  # labels, and the own loss by which a run is chosen


def kmeans(X: np.ndarray, k: int, seed: int) -> Found:
    """scikit-learn's k-means on the vectors as they are."""
    model = KMeans(k, n_init=N_INIT, random_state=seed).fit(X)
    return model.labels_, float(model.inertia_)


def spherical(X: np.ndarray, k: int, seed: int) -> Found:
    """`TELL`: k-means of the directions."""
    model = TELL(k, n_init=N_INIT, random_state=seed).fit(X)
    return model.labels_, float(model.loss_)


def head_from_labels(X: np.ndarray, k: int, seed: int) -> Found:
    """The head of docs/deep.md, which begins at what `TELL` finds."""
    return _head(X, k, seed, spherical(X, k, seed)[0])


def head_from_graph(X: np.ndarray, k: int, seed: int) -> Found:
    """The same head, which begins at a partition of the neighbour graph."""
    return _head(X, k, seed, "graph")


def _head(X: np.ndarray, k: int, seed: int, start: Any) -> Found:
    recipe = TellRecipe(views=Views())  # without a decoder there are none unless one asks for them
    head = nn.Linear(X.shape[1], WIDTH)
    model = DeepTELL(k, encoder=head, start=start, recipe=recipe, random_state=seed).fit(X)
    return model.labels_, float(model.loss_)


OURS: dict[str, Callable[[np.ndarray, int, int], Found]] = {
    "k-means": kmeans,
    "`TELL` (spherical k-means)": spherical,
    "head, from `TELL`'s labels": head_from_labels,
    "head, from the graph": head_from_graph,
}


def scored(topics: np.ndarray, labels: np.ndarray, seconds: float) -> dict[str, Any]:
    """Score labels; noise counts as a cluster of its own, and then not at all."""
    noise = labels == NOISE
    found = {"clusters": len(np.unique(labels[~noise])), "noise": float(noise.mean())}
    found |= {name: getattr(evaluate(topics, labels), name) for name in ("acc", "nmi", "ari")}
    if noise.any() and not noise.all():
        kept = evaluate(topics[~noise], labels[~noise])
        found |= {f"{name}_clustered": getattr(kept, name) for name in ("acc", "nmi", "ari")}
    return found | {"seconds": seconds}


def measure(method: str, data: Texts, seeds: list[int]) -> dict[str, Any]:
    """Run one method of this environment from every seed."""
    k, found = len(np.unique(data.topics)), {}
    for seed in seeds:
        began = time.perf_counter()
        labels, loss = OURS[method](data.X, k, seed)
        found[str(seed)] = scored(data.topics, labels, time.perf_counter() - began) | {"loss": loss}
        print(f"{method}, seed {seed}: ACC {found[str(seed)]['acc']:.4f}", flush=True)
    return found


def ask(python: str, job: str, given: dict[str, Any]) -> dict[str, Any]:
    """What the others answer, in their own environment."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(source, **given)
        script = HERE / "text_peers.py"
        subprocess.run([python, str(script), job, str(source), str(target)], check=True)
        with np.load(target) as found:
            return {name: found[name] for name in found.files}


def embed(python: str | None, texts: list[str]) -> np.ndarray:
    """Embed texts in the environment that holds the sentence model."""
    if python is None:
        raise SystemExit("these texts are not embedded yet: pass --peers PYTHON")
    return np.asarray(ask(python, "embed", {"texts": np.array(texts)})["X"])


def of_peers(python: str, methods: list[str], data: Texts, seeds: list[int]) -> dict[str, Any]:
    """Run methods of the other environment from every seed."""
    k = len(np.unique(data.topics))
    given = {"X": data.X, "texts": np.array(data.texts), "k": k, "seeds": np.array(seeds)}
    answer = ask(python, "cluster", given | {"methods": np.array(methods)})
    found: dict[str, Any] = {"versions": json.loads(str(answer["versions"]))}
    for name in methods:
        found[name] = {
            str(seed): scored(
                data.topics, answer[f"{name} {seed}"], float(answer[f"{name} {seed} seconds"])
            )
            for seed in seeds
        }
    return found


def measured() -> dict[str, Any]:
    """Return what is in the results."""
    kept = RESULTS / "text.json"
    return json.loads(kept.read_text())["results"] if kept.exists() else {}


def main() -> None:
    """Parse, measure what is missing, record after every method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", help="the Python of an environment with what others wrote")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--only", nargs="+", choices=[*OURS, *PEERS], help="measure these anew")
    folder = Path(tempfile.gettempdir()) / "tell-text"
    parser.add_argument("--data", type=Path, default=folder, help="where embeddings are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    for name in options.sets:
        data = SETS[name](options.data, partial(embed, options.peers))
        known = measured().get(name, {}).get("methods", {})
        wanted = options.only or [method for method in (*OURS, *PEERS) if method not in known]
        for method in wanted:
            if method in OURS:
                keep(name, data, {method: measure(method, data, SEEDS)}, began)
        others = [method for method in wanted if method in PEERS]
        if others and options.peers:
            found = of_peers(options.peers, others, data, SEEDS)
            keep(name, data, found, began)


def keep(name: str, data: Texts, found: dict[str, Any], began: float) -> None:
    """Add what was found to the results."""
    results = measured()
    _, sizes = np.unique(data.topics, return_counts=True)
    versions = found.pop("versions", {}) or results.get(name, {}).get("versions", {})
    methods = results.get(name, {}).get("methods", {}) | found
    results[name] = {
        "rows": len(data.X),
        "columns": data.X.shape[1],
        "topics": len(sizes),
        "smallest_topic": int(sizes.min()),
        "largest_topic": int(sizes.max()),
        "texts": data.fingerprint(),
        "versions": versions,
        "methods": {method: methods[method] for method in (*OURS, *PEERS) if method in methods},
    }
    settings = {"seeds": SEEDS, "n_init": N_INIT, "width": WIDTH}
    record("text", settings, results, began=began)


if __name__ == "__main__":
    main()
