"""The tables of `benchmarks/text.py`: topics in embeddings of texts, by ours and by others."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import shallow_tables

Runs = dict[str, dict[str, Any]]
Table = Callable[[list[str], list[list[str]]], list[str]]

HEADER = [
    "method",
    "clusters",
    "noise",
    "ACC",
    "lowest to highest",
    "NMI",
    "ARI",
    "ACC without noise",
    "chosen: ACC",
    "seconds",
]


def tables(found: dict[str, Any], table: Table) -> list[str]:
    """Return one table per set of texts, and how they were made."""
    settings = found["settings"]
    lines = ["## Topics in embeddings of texts", ""]
    for name, result in found["results"].items():
        methods = result["methods"]
        sizes = f"{result['smallest_topic']:,} to {result['largest_topic']:,}"
        lines += [
            f"**{name}**: {result['rows']:,} texts, {result['topics']} sections of {sizes} texts.",
            "",
            *table(HEADER, [[method, *cells(runs)] for method, runs in methods.items()]),
            "",
        ]
    versions = [result["versions"] for result in found["results"].values() if result["versions"]]
    names = ("umap-learn", "hdbscan", "bertopic")
    others = ", ".join(f"{name} {versions[-1][name]}" for name in names) if versions else "none"
    return [
        *lines,
        f"Medians of {len(settings['seeds'])} seeds, in percent. What packages of Debian say they "
        "are in one line, embedded by all-MiniLM-L6-v2; the archive's sections serve for the "
        "scores alone. k-means, `TELL`, both heads, UMAP + k-means and BERTopic, told k are told "
        "the number of sections. The head is [one linear layer and the cluster "
        "layer](deep.md#a-head-on-vectors-of-another-network); of its runs, as of those of "
        "k-means and `TELL`, the one with the smallest own loss is the chosen one. Noise counts "
        "as a cluster of its own, and not at all in *ACC without noise*. HDBSCAN finds a number of "
        "its own: where that is far from the number of sections, ACC, which matches one cluster "
        "with one section, must be low, and NMI says more. Settings are those of the packages or "
        f"of their own pages on clustering ({others}). Seconds are upper limits: other work ran "
        "beside, more of it at some times than at others.",
        *shallow_tables.busy(found),
    ]


def cells(runs: Runs) -> list[str]:
    """Return the cells of one method: medians, the spread of ACC, and the chosen run."""
    some = list(runs.values())
    accuracy = [100 * run["acc"] for run in some]
    noise = median(runs, "noise")
    kept = f"{100 * median(runs, 'acc_clustered'):.1f}" if all_have(runs, "acc_clustered") else ""
    best = min(some, key=lambda run: run["loss"]) if all_have(runs, "loss") else None
    return [
        f"{median(runs, 'clusters'):.0f}",
        f"{100 * noise:.0f} %" if noise else "none",
        f"{statistics.median(accuracy):.1f}",
        f"{min(accuracy):.1f} to {max(accuracy):.1f}",
        f"{100 * median(runs, 'nmi'):.1f}",
        f"{100 * median(runs, 'ari'):.1f}",
        kept,
        "" if best is None else f"{100 * best['acc']:.1f}",
        f"{median(runs, 'seconds'):.0f}",
    ]


def median(runs: Runs, name: str) -> float:
    """Return the median of a measure over the seeds."""
    return statistics.median(run[name] for run in runs.values())


def all_have(runs: Runs, name: str) -> bool:
    """Whether every run has a measure."""
    return all(name in run for run in runs.values())
