"""The tables of docs/interpretability.md, from benchmarks/results/explanations.json."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

Table = Callable[[list[str], list[list[str]]], list[str]]

PLANTED = ("planted", "planted, decoys", "genes")
#: What an explainer without any knowledge gets; never the best of a table.
CHANCE = "chance"


def tables(found: dict[str, Any], table: Table) -> str:
    """All tables under each other."""
    sets = found["results"]["sets"]
    parts = [
        recovery(sets, table),
        curves(sets, table),
        others(sets, table),
        speed(found, table),
        gates(sets, table),
        trees(sets, table),
        reader(sets, table),
        members(found["results"]["members"]),
        [made(found)],
    ]
    return "\n".join(line for part in parts for line in [*part, ""]).rstrip()


def cell(entry: dict[str, float], digits: int = 2) -> str:
    """Mean and half of its confidence interval."""
    return f"{entry['mean']:.{digits}f} ± {entry['half']:.{digits}f}"


def names(sets: dict[str, Any]) -> list[str]:
    """Explainers that answered on every set, those by chance last."""
    kinds = [set(one["explainers"]) for one in sets.values()]
    first = next(iter(sets.values()))["explainers"]
    kept = [name for name in first if all(name in kind for kind in kinds) and name != CHANCE]
    return [*kept, CHANCE]


def recovery(sets: dict[str, Any], table: Table) -> list[str]:
    """Planted columns against noise."""
    rows = []
    for name in names(sets):
        line = [name]
        for which in PLANTED:
            one = sets[which]["explainers"][name]
            line += [cell(one["recovery"]), f"{one['named_first']['mean']:.0%}".replace("%", " %")]
        decoy = sets["planted, decoys"]["explainers"][name]["decoy"]["mean"]
        rows.append([*line, f"{decoy:.0%}".replace("%", " %")])
    header = ["explainer"]
    for which in PLANTED:
        header += [f"{which}: AUC", "named first"]
    aligned = ", ".join(f"{which} {sets[which]['found']:.2f}" for which in PLANTED)
    return [
        "### Planted reasons: do the columns that were planted come before noise?",
        "",
        *table([*header, "a decoy first"], rows),
        "",
        f"The clusters are the planted groups to an adjusted Rand index of {aligned}.",
    ]


def curves(sets: dict[str, Any], table: Table) -> list[str]:
    """Deletion and insertion, set by set."""
    lines = []
    for what, better in (("deletion", "less is better"), ("insertion", "more is better")):
        rows = [
            [name, *(cell(one["explainers"][name][what]) for one in sets.values())]
            for name in names(sets)
        ]
        title = f"### {what.capitalize()}: area under the share of rows still in their cluster"
        lines += [f"{title} ({better})", "", *table(["explainer", *sets], rows), ""]
    return [*lines, *against_kernel(sets, table)]


def against_kernel(sets: dict[str, Any], table: Table) -> list[str]:
    """Deletion row by row against KernelSHAP; nothing where it was not run."""
    key = "deletion_against_kernelshap"
    if not all(key in one["explainers"]["ours, exact"] for one in sets.values()):
        return []
    rows = [
        [name, *(signed(one["explainers"][name][key]) for one in sets.values())]
        for name in names(sets)
        if name not in ("KernelSHAP", CHANCE)
    ]
    return [
        "The same rows against KernelSHAP: the difference of the deletion areas (below 0 is better "
        "than KernelSHAP; bold where the 95 % interval leaves 0 out):",
        "",
        *table(["explainer", *sets], rows),
    ]


def signed(entry: dict[str, float]) -> str:
    text = f"{entry['mean']:+.2f} ± {entry['half']:.2f}".replace("-", "−")
    return f"**{text}**" if abs(entry["mean"]) > entry["half"] else text


def others(sets: dict[str, Any], table: Table) -> list[str]:
    """Infidelity, sensitivity, stability and size, as medians over the sets."""
    rows = []
    for name in names(sets):
        entries = [one["explainers"][name] for one in sets.values()]
        line = [name]
        for what in ("infidelity", "sensitivity", "stability", "size"):
            values = [entry[what]["mean"] for entry in entries]
            digits = 0 if what == "size" else 2
            middle = statistics.median(values)
            line.append(
                f"{middle:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
            )
        rows.append(line)
    header = ["explainer", "infidelity", "max-sensitivity", "stability", "size"]
    return [
        "### Infidelity, max-sensitivity, stability and size: median over the sets (and range)",
        "",
        *table(header, rows),
    ]


def speed(found: dict[str, Any], table: Table) -> list[str]:
    """Time per row, and how many times KernelSHAP's."""
    sets = found["results"]["sets"]
    kernel = {
        which: one["explainers"].get("KernelSHAP", {}).get("seconds_per_row")
        for which, one in sets.items()
    }
    rows = []
    for name in names(sets):
        times = {which: one["explainers"][name]["seconds_per_row"] for which, one in sets.items()}
        ratios = [kernel[which] / times[which] for which in times if kernel[which]]
        middle = 1e3 * statistics.median(times.values())
        ends = [f"{float(f'{end(ratios):.2g}'):,.0f}" for end in (min, max)] if ratios else []
        ratio = f"{' to '.join(ends)} times" if ratios and name != "KernelSHAP" else "–"
        rows.append([name, f"{middle:.3f} ms", ratio])
    busy = "" if found["settings"]["idle"] else " (other programs ran on the machine meanwhile)"
    return [
        f"### Time per row: median over the sets{busy}",
        "",
        *table(["explainer", "per row", "faster than KernelSHAP"], rows),
    ]


def gates(sets: dict[str, Any], table: Table) -> list[str]:
    """The four IDC measures."""
    rows = []
    first = next(iter(sets.values()))["gates"]
    for name in first:
        line = [name]
        for what, digits in (
            ("faithfulness", 2),
            ("generalizability", 2),
            ("diversity", 0),
            ("uniqueness", 2),
        ):
            values = [one["gates"][name][what] for one in sets.values()]
            known = [value for value in values if value is not None]
            middle = f"{statistics.median(known):.{digits}f}" if known else "none"
            line.append(f"{middle} ({len(known)})")
        rows.append(line)
    header = ["explainer", "faithfulness", "generalizability", "diversity", "uniqueness"]
    return [
        "### The four IDC measures: median over the sets (and number of sets with a value)",
        "",
        *table(header, rows),
    ]


def trees(sets: dict[str, Any], table: Table) -> list[str]:
    """Cost ratios by number of leaves."""
    rows = []
    for which, one in sets.items():
        for leaves, entry in one["trees"].items():
            cells = [
                f"{entry[who]['cost_ratio']:.4f}" if who in entry else "–"
                for who in ("ours", "ExKMC", "CART")
            ]
            agreement = f"{entry['ours']['agreement']:.0%}".replace("%", " %")
            rows.append([which, leaves, *cells, agreement, str(entry["ours"]["depth"])])
    header = ["set", "leaves", "ours", "ExKMC's program", "CART", "placed alike (ours)"]
    return [
        "### Trees in place of the model: cost over that of the clustering (1 is no loss)",
        "",
        *table([*header, "depth (ours)"], rows),
    ]


def reader(sets: dict[str, Any], table: Table) -> list[str]:
    """The reader's test."""
    kinds = [kind for kind in next(iter(sets.values()))["reader"] if kind != "unseen"]
    rows = []
    for kind in kinds:
        entries = [one["reader"][kind] for one in sets.values()]
        words = statistics.median(entry["words"] for entry in entries)
        rows.append([kind, *map(cell, entries), f"{words:.0f}"])
    unseen = ", ".join(str(one["reader"]["unseen"]) for one in sets.values())
    return [
        "### The reader's test: balanced accuracy from the printed explanation alone",
        "",
        *table(["what is read", *sets, "words (median)"], rows),
        "",
        f"Mean over the clusters; unseen rows: {unseen}.",
    ]


def members(found: dict[str, Any]) -> list[str]:
    """Planted prototypes and outliers."""
    scores = ", ".join(f"{name} {cell(entry, 3)}" for name, entry in found["outliers"].items())
    typical = found["prototype_among_three_nearest"]["mean"]
    return [
        "### Planted members",
        "",
        f"The planted prototype is among the three most typical members in {100 * typical:.0f} % "
        f"of 50 clusters. Planted outliers, AUC of the outlier score over ten seeds: {scores}.",
    ]


def made(found: dict[str, Any]) -> str:
    """How the numbers came about."""
    settings = found["settings"]
    peers = settings["peers"].get("versions", {})
    text = ", ".join(f"{name} {version}" for name, version in peers.items())
    seconds = f"{found['seconds']:.0f}"
    return (
        f"{settings['rows']} rows per set, seed {settings['seed']}; ± is half of a 95 % confidence "
        f"interval over rows (clusters in the reader's test). One thread, {seconds} s in all. "
        + (f"Peers: {text}. " if text else "")
        + "Every number is from `benchmarks/results/explanations.json`, written here by "
        "`python benchmarks/summary.py`."
    )
