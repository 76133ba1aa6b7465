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
    """All tables under each other; parts that were not measured are left out."""
    results = found["results"]
    every = {name: part for name, part in results.items() if "explainers" in part}
    sets = {name: one for name, one in every.items() if not one.get("deep")}
    behind = {name: one for name, one in every.items() if one.get("deep")}
    parts = [
        recovery(sets, results.get("decoys"), table),
        curves(sets, table),
        replacement(sets, table),
        others(sets, table),
        deep(behind, table) if behind else [],
        speed(results, table) if "timing" in results else [],
        gates(sets, table),
        idc(results["IDC"], table) if "IDC" in results else [],
        trees(sets, table),
        reader(sets, table),
        classix(results["CLASSIX"], sets, table) if results.get("CLASSIX") else [],
        trust(results["trust"], table) if "trust" in results else [],
        members(results["members"]),
        [made(found, every)],
    ]
    return "\n".join(line for part in parts if part for line in [*part, ""]).rstrip()


def cell(entry: dict[str, float], digits: int = 2) -> str:
    """Mean and half of its confidence interval."""
    return f"{entry['mean']:.{digits}f} ± {entry['half']:.{digits}f}"


def names(sets: dict[str, Any]) -> list[str]:
    """Explainers that answered on every set, those by chance last."""
    kinds = [set(one["explainers"]) for one in sets.values()]
    first = next(iter(sets.values()))["explainers"]
    kept = [name for name in first if all(name in kind for kind in kinds) and name != CHANCE]
    return [*kept, CHANCE]


def recovery(sets: dict[str, Any], many: dict[str, Any] | None, table: Table) -> list[str]:
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
        f"The clusters are the planted groups to an adjusted Rand index of {aligned}."
        + (f" {over_many(many)}" if many else ""),
    ]


def over_many(many: dict[str, Any]) -> str:
    """How often a decoy is first, over many sets."""
    first, wrong = (share(many[what], 1) for what in ("named_first", "decoy"))
    return (
        f"Over all {many['rows']:,} rows of {many['sets']} sets with decoys ours names a planted "
        f"column first in {first}, a decoy in {wrong}; in {100 * many['standing_out']:.0f} % of "
        "these the row's decoy lies farther on the cluster's side than the column it follows."
    )


def share(entry: dict[str, float], digits: int = 0) -> str:
    """A share and half of its confidence interval, in percent."""
    return f"{100 * entry['mean']:.{digits}f} ± {100 * entry['half']:.{digits}f} %"


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


def replacement(sets: dict[str, Any], table: Table) -> list[str]:
    """Ours about the middle against others, by what takes the place of a column."""
    kept = {name: one for name, one in sets.items() if "replacement" in one}
    if not kept:
        return []
    kinds = next(iter(kept.values()))["replacement"]
    rows = []
    for who in ("from the mean row", "KernelSHAP"):
        for what in kinds:
            cells = [one["replacement"][what].get(f"against {who}") for one in kept.values()]
            rows.append([who, what, *(signed(cell) if cell else "–" for cell in cells)])
    return [
        "### Deletion once more: what takes the place of a column?",
        "",
        "Area of the split about the middle, the default, less that of another, on the same rows "
        "(below 0 the default is better; bold where the 95 % interval leaves 0 out):",
        "",
        *table(["less", "replaced by", *kept], rows),
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


def deep(sets: dict[str, Any], table: Table) -> list[str]:
    """Explainers behind an encoder: all measures of one set under those of the other."""
    rows = []
    for which, one in sets.items():
        for name in names({which: one}):
            entry = one["explainers"][name]
            against = entry.get("deletion_against_kernelshap") if name != "KernelSHAP" else None
            cells = [cell(entry[what]) for what in ("deletion", "insertion", "infidelity")]
            cells.append(cell(entry["sensitivity"]))
            size = f"{entry['size']['mean']:.0f}"
            rows.append(
                [which, name, cells[0], signed(against) if against else "–", *cells[1:], size]
            )
    header = ["set", "explainer", "deletion", "less KernelSHAP's", "insertion", "infidelity"]
    lines = [
        "### Behind an encoder",
        "",
        *table([*header, "max-sensitivity", "size"], rows),
        "",
    ]
    for which, one in sets.items():
        found = one["directions"]
        said, drawn = ([100 * value for value in found[key]] for key in ("explained", "redrawn"))
        lines.append(
            f"{which}: the amounts of all directions miss the margin by at most "
            f"{found['rest']:.0e}; the three strongest carry "
            f"{100 * found['three_strongest']:.0f} % of it. A linear function of the columns says "
            f"{min(said):.0f} to {max(said):.0f} % of a direction, and of the changes that the "
            f"decoder draws along it the encoder finds {min(drawn):.0f} to {max(drawn):.0f} % "
            f"again. Integrated gradients miss what they should sum to by "
            f"{100 * found['gradients_off']:.1g} % (median). The clusters are the digits to "
            f"{100 * found['accuracy']:.0f} %."
        )
    return lines


def speed(results: dict[str, Any], table: Table) -> list[str]:
    """Time per row, and how many times KernelSHAP's."""
    timing = results["timing"]
    rows = []
    for which, some in timing["sets"].items():
        kernel = some.get("KernelSHAP")
        ours = next(iter(some))
        ratio = f"{float(f'{kernel / some[ours]:.2g}'):,.0f} times" if kernel else "–"
        shown = [some.get(name) for name in (ours, "KernelSHAP", "TreeSHAP", "LIME")]
        rows.append([which, *(f"{1e3 * s:.3g} ms" if s else "–" for s in shown), ratio])
    busy = "" if timing["idle"] else " (other programs ran on the machine meanwhile)"
    header = ["set", "ours", "KernelSHAP", "TreeSHAP", "LIME", "ours faster than KernelSHAP"]
    note = "The forest that TreeSHAP explains, and LIME's look at the data, are shared by the rows."
    return [f"### Time per row{busy}", "", *table(header, rows), "", note]


def idc(found: dict[str, Any], table: Table) -> list[str]:
    """Ours beside the figures of IDC's notebook."""
    book, program = found["notebook"], found["program"]
    none = ["–"] * 5
    rows = [["IDC, its notebook", f"{100 * book['accuracy']:.1f} %", f"{book['gates']:.1f}", *none]]
    for kind, one in found["gates"].items():
        rows.append(
            [
                f"ours, {kind}",
                f"{100 * found['accuracy_greedy']:.1f} %",
                f"{one['open']:.1f}",
                f"{100 * one['generalizability']:.1f} %",
                f"{100 * one['generalizability_digits']:.1f} %",
                f"{one['diversity']:.1f}",
                f"{one['uniqueness']:.2f}",
                "–" if one["faithfulness"] is None else f"{one['faithfulness']:.2f}",
            ]
        )
    hours = program["pretraining_epochs"] * program["seconds_first_epoch"] / 3600
    header = ["gates", "accuracy of the clusters", "open gates per row", "generalizability"]
    header += ["of the true digits", "diversity", "uniqueness", "faithfulness"]
    return [
        "### MNIST-10K: beside Interpretable Deep Clustering",
        "",
        *table(header, rows),
        "",
        f"{found['rows']:,} of the 10,000 rows, half of them to learn from. The accuracy is "
        "counted as IDC's program counts it, for one seed each. That program was started here, on "
        f"the processor: its first epoch took {program['seconds_first_epoch']:.0f} s beside other "
        f"programs, its {program['pretraining_epochs']} epochs of pretraining alone would take "
        f"{hours:.0f} hours, so that it was not run to its end. Its notebook prints no other "
        "figure of explanations.",
    ]


def classix(found: dict[str, Any], sets: dict[str, Any], table: Table) -> list[str]:
    """What CLASSIX says of its own clusters."""
    rows = []
    for which, one in found.items():
        truth = "–" if one["agreement"] is None else f"{one['agreement']:.2f}"
        rows.append(
            [
                which,
                f"{one['clusters']} ({sets[which]['clusters']})",
                truth,
                str(one["groups"]),
                cell(one["reader"]),
                f"{one['reader']['words']:,.0f}",
                f"{one['words']:.0f}",
                f"{one['path']:.1f}",
                f"{1e3 * one['seconds_per_row']:.0f} ms",
            ]
        )
    header = ["set", "clusters (known)", "agreement with the known groups", "groups", "reader"]
    header += ["words read", "words per answer", "groups on a path", "per answer"]
    version = next(iter(found.values()))["version"]
    return [
        "### CLASSIX: groups and paths instead of columns",
        "",
        *table(header, rows),
        "",
        f"classixclustering {version}, with the radius of a grid whose number of clusters with at "
        "least 2 % of the rows comes nearest to the known one; agreement is the adjusted Rand "
        "index. The reader gets the centre of every group and says which group a row is nearest "
        "to; an answer is what `explain(i, j)` prints of why two rows are together: a "
        "path of groups that touch, or 1 where it finds none, because groups were reassigned. It "
        "names no columns: recovery, deletion, infidelity, sensitivity and size do not apply.",
    ]


def trust(found: dict[str, Any], table: Table) -> list[str]:
    """Numbers of the report on rows with clusters, and on the same rows shuffled."""
    rows = []
    for what, one in found.items():
        ends = [
            f"{min(one[kind].values()):.2f} to {max(one[kind].values()):.2f}".replace("-", "−")
            for kind in ("real", "shuffled")
        ]
        rows.append([what, *ends, f"{one['auc']:.2f}"])
    which = ", ".join(next(iter(found.values()))["real"])
    return [
        "### Trust: which numbers tell clusters from shuffled columns?",
        "",
        *table(["number", "as the rows are", "every column shuffled", "AUC"], rows),
        "",
        f"Sets: {which}; up to 600 rows of each, every set shuffled twice. 0.5 is what a number "
        "gets that says nothing.",
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


def made(found: dict[str, Any], sets: dict[str, Any]) -> str:
    """How the numbers came about."""
    settings = found["settings"]
    peers: dict[str, str] = {}
    for one in sets.values():
        peers |= one["peers"].get("versions", {})
    text = ", ".join(f"{name} {version}" for name, version in peers.items())
    return (
        f"{settings['rows']} rows per set, seed {settings['seed']}; ± is half of a 95 % confidence "
        f"interval over rows (clusters in the reader's test). One thread. "
        + (f"Peers: {text}. " if text else "")
        + "Every number is from `benchmarks/results/explanations.json`, written here by "
        "`python benchmarks/summary.py`."
    )
