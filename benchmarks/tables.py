"""What should happen to a table by default: geometry × scaling × encoding on labelled tables.

    python benchmarks/tables.py            about a minute
    python benchmarks/tables.py --deep     DeepTELL too, about ten minutes on two cores

Clusters eleven tables with as many clusters as they have classes, five seeds each, and writes the
adjusted Rand index of every combination to benchmarks/results/tables.json. What `tell fit` does
without options is the combination with the best mean over all tables. `--deep` takes three seeds,
and of the preparations the two best.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import platform
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from sklearn import datasets

HERE = Path(__file__).resolve().parent
CUSTOMERS = HERE.parent / "docs" / "tutorials" / "data" / "customers.csv"
SEEDS = range(5)
GEOMETRIES = ("sphere", "euclidean")
SCALINGS = ("none", "standard", "auto")
ENCODINGS = ("weighted", "standard")
DEEP_SEEDS = range(3)
DEEP_SETTINGS = (("auto", "weighted"), ("standard", "weighted"))

Table = tuple[pd.DataFrame, np.ndarray]


def shipped(load: Callable[..., Any]) -> Table:
    """A table that comes with scikit-learn."""
    bunch = load(as_frame=True)
    return bunch.data, bunch.target.to_numpy()


def blobs() -> Table:
    """Six groups in eight columns, each in a unit of its own."""
    X, y = datasets.make_blobs(1500, 8, centers=6, cluster_std=2.0, random_state=0)
    units = 10.0 ** np.random.default_rng(0).uniform(-3, 4, 8)
    return pd.DataFrame(X * units, columns=[f"c{i}" for i in range(8)]), y


def informative() -> Table:
    """Four classes that six of ten columns tell of."""
    X, y = datasets.make_classification(
        1500, 10, n_informative=6, n_redundant=0, n_classes=4, n_clusters_per_class=1,
        class_sep=2.0, random_state=0,
    )  # fmt: skip
    return pd.DataFrame(X, columns=[f"c{i}" for i in range(10)]), y


def spending() -> Table:
    """Four groups of customers by five amounts of money, log-normal as these are."""
    random = np.random.default_rng(0)
    y = random.integers(0, 4, 2000)
    middle = random.uniform(2, 6, (4, 5))
    amounts = np.exp(middle[y] + random.normal(0, 0.7, (2000, 5)))
    return pd.DataFrame(amounts, columns=["food", "travel", "home", "books", "games"]), y


def _customers(with_signal: bool) -> Table:
    random = np.random.default_rng(1)
    n = 2000
    y = random.integers(0, 4, n)
    age = np.array([24, 38, 51, 68])[y] + random.normal(0, 5, n)
    income = np.exp(np.array([9.8, 10.6, 11.2, 10.2])[y] + random.normal(0, 0.3, n))
    visits = random.poisson(np.array([20, 8, 3, 12])[y])
    spend = np.exp(np.array([3.0, 5.0, 6.5, 4.0])[y] + random.normal(0, 0.5, n))
    income[random.random(n) < 0.1] = np.nan
    country = random.choice([f"country {i}" for i in range(12)], n)
    plan = np.array(["free", "basic", "pro", "basic"])[y]
    plan = np.where(random.random(n) < 0.2, random.choice(["free", "basic", "pro"], n), plan)
    member = np.where(random.random(n) < np.array([0.2, 0.5, 0.9, 0.4])[y], "yes", "no")
    frame = pd.DataFrame(
        {"age": age.round(), "income": income.round(), "visits": visits, "spend": spend.round(2)}
    )
    frame["country"] = country
    frame["member"] = member
    if with_signal:
        frame["plan"] = plan
    return frame, y


def categories() -> Table:
    """Three groups that three categories tell of, beside three columns that tell a little."""
    random = np.random.default_rng(2)
    n = 1500
    y = random.integers(0, 3, n)
    numbers = y[:, None] * 0.8 + random.normal(0, 1, (n, 3))
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    for name, values in (("colour", 4), ("shape", 5), ("kind", 6)):
        shares = random.dirichlet(np.full(values, 0.4), 3)
        frame[name] = [f"{name}{random.choice(values, p=shares[group])}" for group in y]
    return frame, y


def credit() -> Table:
    """The table of the tutorial; how the credit ended is all that is known."""
    frame = pd.read_csv(CUSTOMERS)
    return frame.drop(columns="status"), frame["status"].to_numpy()


TABLES: dict[str, Callable[[], Table]] = {
    "wine": lambda: shipped(datasets.load_wine),
    "iris": lambda: shipped(datasets.load_iris),
    "breast cancer": lambda: shipped(datasets.load_breast_cancer),
    "digits": lambda: shipped(datasets.load_digits),
    "blobs in odd units": blobs,
    "six of ten columns": informative,
    "spending": spending,
    "customers, country is noise": lambda: _customers(False),
    "customers, plan tells": lambda: _customers(True),
    "categories": categories,
    "credit": credit,
}


def score(table: Table, geometry: str, scaling: str, encoding: str) -> float:
    """Mean adjusted Rand index over the seeds."""
    from sklearn.metrics import adjusted_rand_score

    from tell import TELL, TablePreparation

    frame, y = table
    X = TablePreparation(scaling=scaling, encoding=encoding).fit_transform(frame)
    k = len(np.unique(y))
    labels = (
        TELL(k, geometry=geometry, prepare=False, random_state=s).fit_predict(X) for s in SEEDS
    )
    return float(np.mean([adjusted_rand_score(y, found) for found in labels]))


def deep_score(name: str, scaling: str, encoding: str) -> dict[str, Any]:
    """Mean adjusted Rand index of `DeepTELL` over its seeds."""
    import torch
    from sklearn.metrics import adjusted_rand_score

    from tell import DeepTELL, TablePreparation

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    frame, y = TABLES[name]()
    prepare = TablePreparation(scaling=scaling, encoding=encoding)
    k = len(np.unique(y))
    labels = (DeepTELL(k, prepare=prepare, random_state=s).fit_predict(frame) for s in DEEP_SEEDS)
    found = float(np.mean([adjusted_rand_score(y, label) for label in labels]))
    setting = {"geometry": "deep", "scaling": scaling, "encoding": encoding}
    return {"table": name, **setting, "ari": found}


def deep_scores() -> list[dict[str, Any]]:
    """`DeepTELL` on every table, two processes side by side."""
    jobs = [(name, *setting) for name in TABLES for setting in DEEP_SETTINGS]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(deep_score, *zip(*jobs, strict=True)))


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deep", action="store_true", help="DeepTELL too")
    deep = parser.parse_args().deep
    results = []
    for name, make in TABLES.items():
        table = make()
        for setting in itertools.product(GEOMETRIES, SCALINGS, ENCODINGS):
            found = score(table, *setting)
            results.append(
                {
                    "table": name,
                    **dict(zip(("geometry", "scaling", "encoding"), setting, strict=True)),
                    "ari": found,
                }
            )
    results += deep_scores() if deep else []
    frame = pd.DataFrame(results)
    means = frame.groupby(["geometry", "scaling", "encoding"])["ari"].mean().sort_values()
    best = dict(zip(("geometry", "scaling", "encoding"), means.index[-1], strict=True))
    content = {
        "what": "adjusted Rand index, mean over the seeds",
        "seeds": len(SEEDS),
        "deep_seeds": len(DEEP_SEEDS) if deep else None,
        "tables": list(TABLES),
        "best": {**best, "mean_ari": float(means.iloc[-1])},
        "means": [
            {
                **dict(zip(("geometry", "scaling", "encoding"), key, strict=True)),
                "mean_ari": float(value),
            }
            for key, value in means[::-1].items()
        ],
        "results": results,
        "versions": {"python": platform.python_version(), "scikit-learn": sklearn.__version__},
    }
    (HERE / "results" / "tables.json").write_text(json.dumps(content, indent=1) + "\n")
    print(frame.pivot_table(index="table", columns=["geometry", "scaling", "encoding"]).round(3).T)
    print(means)


if __name__ == "__main__":
    main()
