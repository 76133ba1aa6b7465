"""Numbers of clusters that other libraries choose, for benchmarks/choose.py.

Their packages do not go together with this project's: run it in an environment of their own,

    python -m venv peers && peers/bin/pip install pyclustering kneed scikit-learn
    peers/bin/python benchmarks/choose_peers.py other.json
    python benchmarks/choose.py --peers other.json

"elbow" is kneed's knee of scikit-learn's k-means, which is what Yellowbrick draws; X-means (BIC)
and G-means are pyclustering's.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from choose import LARGEST, SEEDS, cases, inertia, rows_of

np.warnings = warnings  # type: ignore[attr-defined] # pyclustering 0.10 looks for it there


def by_elbow(X: np.ndarray, seed: int) -> int:
    """The knee; a curve without one is one cluster."""
    from kneed import KneeLocator

    largest = min(LARGEST, len(X) // 5)
    curve = [inertia(X, k, seed) for k in range(1, largest + 1)]
    found = KneeLocator(range(1, largest + 1), curve, curve="convex", direction="decreasing")
    return int(found.elbow or 1)


def by_xmeans(X: np.ndarray, seed: int) -> int:
    """pyclustering's X-means from one centre."""
    from pyclustering.cluster.center_initializer import kmeans_plusplus_initializer
    from pyclustering.cluster.xmeans import xmeans

    np.random.seed(seed)  # noqa: NPY002 (what pyclustering draws from)
    first = kmeans_plusplus_initializer(X, 1, random_state=seed).initialize()
    found = xmeans(X, first, kmax=LARGEST, ccore=False, random_state=seed)
    return len(found.process().get_clusters())


def by_gmeans(X: np.ndarray, seed: int) -> int:
    """pyclustering's G-means."""
    from pyclustering.cluster.gmeans import gmeans

    np.random.seed(seed)  # noqa: NPY002 (what pyclustering draws from)
    found = gmeans(X, ccore=False, k_max=LARGEST, random_state=seed)
    return len(found.process().get_clusters())


PEERS = {"elbow": by_elbow, "X-means": by_xmeans, "G-means": by_gmeans}


def main() -> None:
    """Fill a file with what is missing in it."""
    path = Path(sys.argv[1])
    results = json.loads(path.read_text()) if path.exists() else {"chosen": {}}
    names = ("pyclustering", "kneed", "scikit-learn", "numpy")
    results["versions"] = {name: importlib.metadata.version(name) for name in names}
    warnings.simplefilter("ignore")
    for name, case in cases().items():
        for peer, answer in PEERS.items():
            found = results["chosen"].setdefault(name, {}).setdefault(peer, {})
            for seed in SEEDS:
                if str(seed) not in found:
                    found[str(seed)] = answer(rows_of(case, seed), seed)
            path.write_text(json.dumps(results))
            print(f"{name}: {peer} {list(found.values())}", flush=True)


if __name__ == "__main__":
    main()
