"""Write the result tables from the committed results files; no number is typed by hand.

Most of them stand in docs/benchmarks.md, five rows in the README, those on numbers of clusters and
on outliers in docs/choosing.md.

python benchmarks/summary.py            # rewrite the parts between the markers
python benchmarks/summary.py --check    # exit code 1 if a page is out of date
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from pathlib import Path
from typing import Any

import explanation_tables
import shallow_tables
import text_tables

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ARRAYS = [  # those of the README
    f"{case}, sphere" for case in ("1M x 10, k=10", "120k x 96, k=80", "50k x 700, k=10")
]
REPRODUCTION = ROOT / "docs" / "reproduction"
BUSY = 1.5  # load of a machine on which not only the measurement ran


def read(name: str) -> dict[str, Any] | None:
    """Return what a benchmark recorded, if it has run."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def shallow() -> list[str]:
    """Return speed and loss on arrays."""
    found = read("shallow")
    return [] if found is None else shallow_tables.tables(found, table)


def scaling() -> list[str]:
    """Return how times grow, and how near to the machine's limit a pass is."""
    found = read("scaling")
    if found is None:
        return []
    machine, curves = found["results"]["machine"], found["results"]["curves"]
    rows = []
    for name, curve in curves.items():
        for point in curve["points"]:
            rows.append(
                [
                    f"{point['n']:,} × {point['d']}, k = {point['k']}",
                    f"{1e3 * point['fit']:.0f} ms",
                    f"{1e3 * point['pass']:.2f} ms",
                    f"{1e3 * point['limit']:.2f} ms",
                    f"{point['limit'] / point['pass']:.2f}",
                    f"{max(0, point['bytes_per_row']):.0f}",
                ]
            )
        powers = curve["exponents"]
        cells = [f"{name}^{powers['fit']:.2f}", f"{name}^{powers['pass']:.2f}"]
        rows.append([f"**grows with {name} as**", *cells, "", "", ""])
    shares = [point["limit"] / point["pass"] for c in curves.values() for point in c["points"]]
    header = ["data", "fit", "a pass", "its limit", "limit / pass", "bytes of a fit per row"]
    return [
        "## Scaling: time against rows, columns and clusters",
        "",
        "![Three log–log panels: the seconds of a fit and of one pass that gives every row its "
        "centre, against rows, columns and clusters; dotted: the machine's limit for the "
        "pass.](figures/scaling.svg)",
        "",
        *table(header, rows),
        "",
        f"The limit is the larger of the pass's products at "
        f"{machine['operations_per_second'] / 1e9:.0f} GFLOP/s and its rows read once at "
        f"{machine['bytes_per_second'] / 1e9:.1f} GB/s, both measured on this machine. Goal: at "
        f"least 0.5 of the limit; measured: {min(shares):.2f} to {max(shares):.2f}, reached in "
        f"{sum(share >= 0.5 for share in shares)} of {len(shares)} cases.",
        *shallow_tables.busy(found),
        *partial_products(),
    ]


def partial_products() -> list[str]:
    """Return why a pass multiplies all columns."""
    found = read("partial_products")
    if found is None:
        return []
    cases = []
    for name, case in found["results"].items():
        times = {part["columns"]: part["seconds"] / case["all"] for part in case["partial"]}
        columns = min(times, key=times.__getitem__)
        cases.append(
            f"{times[columns]:.1f} times as long as all products on {name} (the best of "
            f"{len(times)} choices, {columns} columns first), beside "
            f"{case['rotation'] / case['all']:.1f} of their time to turn the rows once"
        )
    return [
        "",
        "A pass multiplies all columns. To rule out centres by the first ones, x·c ≤ x₁·c₁ + "
        "‖x₂‖‖c₂‖ after a rotation that puts the centres' variance first, is exact but does not "
        f"pay without a kernel of its own: it takes {'; '.join(cases)} "
        "(`benchmarks/partial_products.py`, processor time of one thread).",
    ]


def quality() -> list[str]:
    """Return how good the optima are."""
    found = read("shallow_quality")
    if found is None:
        return []
    rows = [
        [
            name,
            str(result["seeds"]),
            f"{result['tell_mean']:.5g}",
            f"{result['kmeans_best']:.5g}",
            f"{result['mean_above_their_best_percent']:+.3f} %",
        ]
        for name, result in found["results"].items()
    ]
    header = ["data, geometry", "seeds", "`TELL` mean loss", "best of `KMeans`", "difference"]
    return [
        "## Optima: the mean over seeds against the best `KMeans` run of them all",
        "",
        *table(header, rows),
    ]


def reproduced(target: str) -> list[list[dict[str, Any]]]:
    """Return the runs of TELL, the last row of a table of the paper, by column."""
    from tell.reproduce.results import finished
    from tell.reproduce.spec import load_scale, load_spec

    spec, scale = load_spec(target), load_scale("cpu")
    cells = []
    for column in spec.columns:
        runs = spec.cell(spec.rows[-1], column, scale)
        options = runs[0].method.options
        name = f"{column.data}, {options['encoder'].upper()}"
        facts = {"data": name, "recipe": options["recipe"], "start": options.get("start", "graph")}
        cells.append([{**vars(result), **facts} for result in finished(REPRODUCTION, runs)])
    return [cell for cell in cells if cell]


def rounded(runs: list[dict[str, Any]]) -> str:
    """Say how many of the runs were trained with products in bfloat16."""
    found = [run.get("precision", run.get("facts", {}).get("precision")) for run in runs]
    count = found.count("bfloat16")
    which = "" if count == len(runs) else f"{count} "
    return f" ({which}in bfloat16)" if count else ""


def start_of(run: dict[str, Any]) -> str:
    """Name where a run began.

    >>> start_of({"recipe": "TellRecipe(epochs=None, start=KMeansStart(epochs=None))"})
    'kmeans'
    """
    named = re.search(r"start=(\w+)Start\(", run["recipe"])
    return run.get("start") or (named[1].lower() if named else "graph")


def deep() -> list[str]:
    """Return what DeepTELL reaches, the run chosen by the clustering loss."""
    rows = []
    table5 = {runs[0]["data"]: runs for runs in reproduced("table5")}
    recorded = []
    for file in sorted(RESULTS.glob("deep-*.jsonl")):
        runs = [json.loads(line) for line in file.read_text().splitlines()]
        if file.stem == "deep-mnist-tell-auto":  # seeds beyond those of the paper's table
            table5.setdefault("mnist, CNN", []).extend(runs)
        else:
            recorded.append(runs)
    for runs in [*table5.values(), *reproduced("s1"), *reproduced("s2"), *recorded]:
        best = min(runs, key=lambda run: run["loss"])
        scores = [f"{100 * best['scores'][name]:.2f}" for name in ("acc", "nmi", "ari")]
        median = statistics.median(100 * run["scores"]["acc"] for run in runs)
        worst = min(100 * run["scores"]["acc"] for run in runs)
        minutes = statistics.median(run["seconds"] for run in runs) / 60
        rows.append(
            [
                runs[0]["data"],
                runs[0]["recipe"].partition("Recipe")[0].lower() + rounded(runs),
                start_of(runs[0]),
                runs[0].get("augment") or "none",
                str(len(runs)),
                *scores,
                f"{median:.2f}",
                f"{worst:.2f}",
                f"{minutes:.1f}",
            ]
        )
    if not rows:
        return []
    header = ["data", "recipe", "start", "augmentation", "seeds", "ACC", "NMI", "ARI"]
    return [
        "## Learned features: `DeepTELL`, run chosen by the smallest clustering loss",
        "",
        *table([*header, "median ACC", "lowest ACC", "minutes a run"], rows),
        "",
        "`tell` is the default recipe. Minutes are upper limits: other work ran beside the "
        "training.",
    ]


def texts() -> list[str]:
    """Return how well topics of texts are found in embeddings."""
    found = read("text")
    return [] if found is None else text_tables.tables(found, table)


def epochs() -> list[str]:
    """Return the speed of an epoch against the plain loop."""
    found = read("deep_speed")
    if found is None:
        return []
    settings = found["settings"]
    named = {
        "eager": "`DeepTELL`",
        "given-back": "without keeping freed memory",
        "bfloat16": "with products in bfloat16",
    }
    rows = [
        [
            name.split("-")[0].upper(),
            str(result["threads"]),
            f"{result['plain']['seconds_per_70000']:.0f} s",
            *(
                cell
                for side in settings["ours"]
                for cell in (
                    f"{result[side]['seconds_per_70000']:.0f} s",
                    f"{result[side]['times_faster']:.2f}×",
                )
            ),
        ]
        for name, result in found["results"].items()
    ]
    plain = "plain eager loop with a `DataLoader`"
    ours = [cell for side in settings["ours"] for cell in (named.get(side, side), "ratio")]
    return [
        "## An epoch of the paper's recipe",
        "",
        *table(["network", "threads", plain, *ours], rows),
        "",
        f"Seconds for 70,000 images in batches of {settings['batch']}, and how many times as fast "
        f"as the plain loop, in the median of {settings['rounds']} rounds in which all take turns. "
        '`precision="bfloat16"` pays where the processor has instructions for it.',
    ]


def streams() -> list[str]:
    """Return the speed of learning as rows come."""
    found = read("stream")
    if found is None:
        return []
    rows = []
    for question, result in found["results"].items():
        low, high = result["quartiles"]
        spread = f"{low:.2f} to {high:.2f}"
        rows.append([question, f"{result['ratio']:.2f}×", spread, f"{result['goal']:g}×"])
    settings = found["settings"]
    return [
        "## Streams: speed against the peer",
        "",
        *table(["question", "ratio", "quartiles", "goal"], rows),
        "",
        f"k = {settings['clusters']}, d = {settings['features']}; each learner in its own process, "
        f"medians of {settings['rounds']} rounds in turns, {settings['threads']} threads"
        f"{_busy(settings)}. The bare arithmetic is torch's product and argmax, nothing else.",
    ]


def _busy(settings: dict[str, Any]) -> str:
    """Return a warning where other work was going on."""
    load = settings["load"]
    return f"; other work ran on the machine (load {load:g})" if load > BUSY else ""


def latencies() -> list[str]:
    """Return how long one waits for a row, the package and the command."""
    found = read("latency")
    if found is None:
        return []
    of, settings = found["results"], found["settings"]
    torch = of["import torch"]["median"]

    def row(name: str, what: str, goal: str, digits: int) -> list[str]:
        low, high = of[name]["quartiles"]
        middle = of[name]["median"]
        return [what, f"{middle:.{digits}f}", f"{low:.{digits}f} to {high:.{digits}f}", goal]

    rows = [
        row("TELL.predict, p50", "`TELL.predict` of one row, p50, µs", "60", 0),
        row("TELL.predict, p99", "the same, p99, µs", "", 0),
        row("KMeans.predict, p50", "scikit-learn's `KMeans`, p50, µs", "", 0),
        row("import torch", "`import torch`, s", "", 2),
        *(
            row(name, f"`{name}`, which `TELL` needs, s", "", 2)
            for name in ("import torch, sklearn.base",)
            if name in of
        ),
        row("import tell", "`import tell`, s", f"{torch + 0.3:.2f} (torch + 0.3)", 2),
        row("from tell import TELL", "`from tell import TELL`, s", "", 2),
        row("tell predict", "`tell predict` of 1,000 rows, from a cold start, s", "1.20", 2),
    ]
    return [
        "## Latency",
        "",
        *table(["what", "median", "quartiles", "goal"], rows),
        "",
        f"k = {settings['clusters']}, d = {settings['features']}; processes of their own, medians "
        f"of {settings['rounds']} rounds in turns{_busy(settings)}.",
    ]


def large_file() -> list[str]:
    """Return memory and time for a file larger than we want in memory."""
    found = read("large_file")
    if found is None:
        return []
    result, rows = found["results"], found["settings"]["rows"]
    rounds = found["settings"]["rounds"]
    return [
        "## Files larger than memory",
        "",
        f"A Parquet file of {rows / 1e6:.0f}M rows, {rounds} round(s): peak memory "
        f"{result['tell']['peak_gib']:.2f} GiB; a pass of `fit` takes "
        f"{result['fit_per_pass_to_bare']:.2f}, of `predict` {result['predict_to_bare']:.2f} of "
        "the time of a bare pyarrow scan with matmul and argmax.",
    ]


def services() -> list[str]:
    """Return how fast a service answers."""
    found = read("serve")
    if found is None:
        return []
    settings, results = found["settings"], found["results"]
    rows = [
        [
            f"`{name}`",
            *(f"{result['single'][part]:.2f} ms" for part in ("p50_ms", "p99_ms")),
            *(f"{result[f'arrow_rows_per_second_{n}'] / 1e3:,.0f}k rows/s" for n in (1, 2)),
        ]
        for name, result in results["services"].items()
    ]
    one, many = (results["updates"][f"{callers}_callers"] for callers in (1, 16))
    return [
        "## A service",
        "",
        *table(["service", "one row, p50", "p99", "Arrow, 1 caller", "Arrow, 2 callers"], rows),
        "",
        f"k = {settings['clusters']}, d = {settings['features']}; single rows as JSON at "
        f"{settings['rate']:.0f} requests/s, timed from when they were due; batches of "
        f"{settings['rows_per_batch']:,} rows as fast as they are answered; medians of rounds in "
        "turns, service and callers on the same two cores. The bare service is FastAPI with a "
        "scikit-learn `KMeans` from joblib. `/update` with ten rows, whose answer waits for the "
        f"save: p50 {one['p50_ms']:.1f} ms and p99 {one['p99_ms']:.1f} ms for one caller, "
        f"{many['p50_ms']:.1f} and {many['p99_ms']:.1f} ms for sixteen.",
    ]


WORKERS = {
    "one_process": "one process",
    "one_worker": "1 worker",
    "two_workers": "2 workers",
    "two_workers_cached": "2 workers, rows in memory",
}


def scale() -> str:
    """Return what passes by workers cost, and what larger fits would take by that."""
    found = read("scale")
    if found is None:
        missing = "No measurement of passes is recorded yet: `python benchmarks/scale.py` on an "
        return "\n".join([*deep_large(), missing + "idle machine writes one."])
    results, settings = found["results"], found["settings"]
    lines = [
        f"A pass over a Parquet file of {settings['rows'] / 1e6:.0f}M × {settings['features']}, "
        f"{settings['clusters']} clusters, median of {settings['rounds']}:",
        "",
        *passes(results, settings["rows"]),
        "",
        two_cores(results),
        "",
        f"A call to both workers that does nothing takes "
        f"{1e3 * results['two_workers']['call']:.1f} ms. From the same start on 1M rows the loss "
        f"ends within {results['losses']['relative']:.1e} of scikit-learn's Lloyd. "
        + seeds(results["seeding"]),
        "",
        *cost(results, settings["rows"]),
    ]
    return "\n".join([*deep_large(), *lines])


def passes(results: dict[str, Any], n_rows: int) -> list[str]:
    """Return the table of passes: one process, workers, and the peer."""
    alone = results["one_process"]["pass"]
    rows = []
    for name, text in WORKERS.items():
        one = results[name]
        moved = f"{one['bytes'] / 1e3:.1f} kB" if one["bytes"] else "none"
        peak = f"{one['peak_gib']:.2f} GiB" if "peak_gib" in one else ""
        rows.append([text, *speed(one["pass"], n_rows, alone), moved, peak])
    peer = results["dask-ml"]
    if "pass" in peer:
        name = f"dask-ml {peer['version']}, 2 threads"
        rows.append([name, *speed(peer["pass"], n_rows, alone), "", ""])
    header = ["who", "a pass", "rows per second", "against one process", "moved", "peak of one"]
    note = [] if "pass" in peer else ["", f"dask-ml was left out: {peer['left_out']}."]
    return [*table(header, rows), *note]


def two_cores(results: dict[str, Any]) -> str:
    """Return a sentence on what a second worker is worth on two cores."""
    alone, one, two, kept = (results[name]["pass"] for name in WORKERS)
    return (
        f"The goal was 1.6 times the speed of one process. Two workers that read the file anew in "
        f"every pass have {alone / two:.2f} times, because one process already decodes on the "
        f"other core while it sums; two that hold their rows in memory have {alone / kept:.2f} "
        f"times, at the memory that the table shows. One worker takes {1e3 * (one - alone):+.0f} "
        "ms a pass beside one process (the goal was at most 50)."
    )


def speed(seconds: float, n_rows: int, alone: float) -> list[str]:
    """Return three cells: seconds of a pass, rows per second, ratio to one process."""
    return [f"{seconds:.2f} s", f"{n_rows / seconds / 1e6:.2f}M", f"{alone / seconds:.2f}×"]


def seeds(found: dict[str, Any]) -> str:
    """Return a sentence on k-means‖ against k-means++."""
    ours, theirs = found["k-means‖"], found["k-means++"]
    first, later = (100 * (ours[at] / theirs[at] - 1) for at in ("seeds", "after_3_steps"))
    return (
        f"Seeds for {found['clusters']:,} clusters of {found['rows']:,} rows: the loss of k-means‖ "
        f"differs by {first:+.1f} % from that of k-means++, after three steps by {later:+.1f} %; "
        f"it took {ours['seconds']:.0f} s against {theirs['seconds']:.0f} s."
    )


def cost(results: dict[str, Any], rows: int) -> list[str]:
    """Return the arithmetic of a pass over many more rows, from the measured constants."""
    two = results["two_workers"]
    read = 2 * two["pass"] / rows  # worker-seconds of a row, read and summed
    kept = 2 * results["two_workers_cached"]["pass"] / rows
    moved = two["bytes"] / 2
    lines = []
    for count, workers in ((1e9, 8), (1e9, 64), (1e11, 64), (1e11, 1024)):
        seconds = count * read / workers + two["call"] * workers / 2
        lines.append(
            [
                f"{count:.0e}",
                str(workers),
                f"{count:.0e} × {read * 1e9:.0f} ns / {workers} + {workers} × "
                f"{two['call'] * 1e3 / 2:.1f} ms = {seconds:,.0f} s",
                f"{workers} × {moved / 1e3:.1f} kB = {workers * moved / 1e6:.1f} MB",
                f"{count * kept / workers:,.0f} s",
            ]
        )
    return [
        f"With these constants ({read * 1e9:.0f} ns to read and sum a row, {kept * 1e9:.0f} ns to "
        "sum one that is in memory, both of one worker; calls are taken to cost in proportion to "
        "the workers):",
        "",
        *table(["rows", "workers", "a pass that reads", "moved", "from memory"], lines),
    ]


def deep_large() -> list[str]:
    """Return the memory that deep fits of large files took."""
    found = read("deep_large")
    if found is None:
        return []
    rows, images = found["results"]["parquet"], found["results"]["images"]
    return [
        f"`DeepTELL` with `memory='{found['settings']['memory']}'`, the whole process: a Parquet "
        f"file of {rows['rows'] / 1e6:.0f}M × {found['settings']['features']} "
        f"({rows['data_gb']:.1f} GB as numbers) peaked at {rows['peak_gb']:.2f} GB, a folder of "
        f"{images['rows']:,} PNG files ({images['data_gb']:.1f} GB as numbers) at "
        f"{images['peak_gb']:.2f} GB. `max_time` ended training when eq. 15 had seen "
        f"{rows['trained']['tell']:,} rows and {images['trained']['tell']:,} images beyond those "
        "of the start; then every row got its label.",
        "",
    ]


WAYS = {"euclidean": "as `tell fit` does", "sphere": "`--geometry sphere`", "deep": "`--deep`"}


def tables() -> list[str]:
    """Return how well labelled tables are clustered without options, and in other ways."""
    found = read("tables")
    if found is None:
        return []
    score = {
        (line["table"], line["geometry"]): line["ari"]
        for line in found["results"]
        if (line["scaling"], line["encoding"]) == ("auto", "weighted")
    }
    rows = [
        [name, *(f"{score[name, way]:.3f}" for way in WAYS)]
        for name in dict.fromkeys(line["table"] for line in found["results"])
    ]
    means = [sum(score[row[0], way] for row in rows) / len(rows) for way in WAYS]
    rows.append(["**mean**", *(f"**{mean:.3f}**" for mean in means)])
    plain = [line for line in found["means"] if line["geometry"] != "deep"]
    return [
        "## Tables: what `tell fit table.csv` does without options",
        "",
        f"Adjusted Rand index against known classes, mean of {found['seeds']} seeds "
        f"({found['deep_seeds']} for `--deep`), as many clusters as classes. Without options "
        f"`tell fit` does what has the best mean of {len(plain)} ways (geometry × scaling × "
        "encoding) and of `--deep`, which is better on most tables of numbers, and "
        "far worse on the three made ones with categories.",
        "",
        *table(["table", *WAYS.values()], rows),
    ]


def everything() -> str:
    """Return all measurements, for the page of their own."""
    parts = [
        part
        for part in (
            shallow(),
            scaling(),
            quality(),
            tables(),
            deep(),
            texts(),
            epochs(),
            streams(),
            latencies(),
            large_file(),
            services(),
        )
        if part
    ]
    lines = []
    for part in parts:
        lines += [*part, ""]
    lines.append(
        "2 cores, no GPU; other work on the machine was stopped for the timings on arrays, epochs, "
        "streams, latency and the large file where nothing else is said, but not for the minutes "
        "of `DeepTELL`, which are upper limits. Every number is from `benchmarks/results/` or, for "
        "MNIST and "
        "CIFAR-10, `docs/reproduction/cpu/` (command, seeds, versions and machine inside), "
        "rewritten here by `python benchmarks/summary.py`; `make bench` measures again."
    )
    return "\n".join(lines)


def five_rows() -> str:
    """Return one line for each kind of work, for the README."""
    learned = mnist()
    # A third array stands in while no run of the present default on MNIST is recorded.
    rows = [*arrays(2 if learned else 3), *learned, *one_stream(), *one_file()]
    return "\n".join(table(["what", "`tell`", "compared with"], rows))


def arrays(count: int) -> list[list[str]]:
    """Return the times of some fits, the losses beside them."""
    found = read("shallow")
    results = found["results"] if found else {}
    rows = []
    for case in [case for case in ARRAYS if case in results][:count]:
        methods = results[case]["methods"]
        cells = {
            who: shallow_tables.default_cell(methods[who], results[case]["patience"])
            for who in ("TELL", "scikit-learn", "oneDAL")
        }
        others = "; ".join(f"{who} {cells[who]}" for who in ("scikit-learn", "oneDAL"))
        when = " (machine not idle)" if shallow_tables.busy(found) else ""
        what = f"fit {case.rpartition(',')[0]}{when}: seconds, loss"
        rows.append([what, cells["TELL"], others])
    return rows


def mnist() -> list[list[str]]:
    """Return what learned features are worth on MNIST, the run chosen by the clustering loss."""
    found = read("baselines_mnist")
    runs = [run for runs in reproduced("table5") for run in runs if run["data"] == "mnist, CNN"]
    if found is None or not runs:
        return []
    ours = min(runs, key=lambda run: run["loss"])["scores"]["acc"]
    (peer,) = (row for row in found["rows"] if row["method"] == "kmeans")
    theirs = f"k-means on pixels {100 * peer['measures']['acc'][0]:.1f} %"
    return [["MNIST without labels, ACC", f"`DeepTELL` {100 * ours:.1f} %", theirs]]


def one_stream() -> list[list[str]]:
    """Return the speed of learning row by row."""
    found = read("stream")
    if found is None:
        return []
    result = found["results"]["learn_one against river KMeans"]
    ours, theirs = (
        f"{result[who]:,.0f} rows/s" for who in ("rows_per_second", "peer_rows_per_second")
    )
    return [["learn from a stream row by row", ours, f"river's `KMeans` {theirs}"]]


def one_file() -> list[list[str]]:
    """Return the memory that a large file needs."""
    found = read("large_file")
    if found is None:
        return []
    size = f"{found['settings']['rows'] / 1e6:.0f}M x {found['settings']['features']}"
    ours, bare = (f"{found['results'][who]['peak_gib']:.1f} GiB" for who in ("tell", "bare"))
    return [[f"fit a Parquet file, {size}: memory", ours, f"a bare scan with pyarrow {bare}"]]


def explanations() -> str:
    """Return the study of explanations."""
    found = read("explanations")
    return "" if found is None else explanation_tables.tables(found, table)


def outliers() -> str:
    """Return how well planted outliers are ranked."""
    found = read("outliers")
    if found is None:
        return "No measurement is recorded yet: `python benchmarks/outliers.py` writes one."
    results = found["results"]
    methods = list(next(iter(results.values())))
    rows = []
    for case, scores in results.items():
        means = {method: statistics.mean(scores[method]) for method in methods}
        best = max(means.values())
        cells = [
            f"**{mean:.3f}**" if round(mean, 3) == round(best, 3) else f"{mean:.3f}"
            for mean in means.values()
        ]
        rows.append([case, *cells])
    names = [f"`{method}`" if method.isalpha() else method for method in methods]
    return "\n".join(table(["planted outliers", *names], rows))


CLEAR, NONE = "clear", "none"


def chosen() -> str:
    """Return the numbers of clusters chosen, against the true ones."""
    found = read("choose")
    if found is None:
        return "No measurement is recorded yet: `python benchmarks/choose.py` writes one."
    methods = list(dict.fromkeys(m for case in found["chosen"].values() for m in case))
    rows = []
    for case, about in found["cases"].items():
        answers = found["chosen"].get(case, {})
        true = " or ".join(map(str, about["true"]))
        cells = [right_of(answers.get(method, {}), about["true"]) for method in methods]
        rows.append([case, true, *cells])
    for kind, words in ((CLEAR, "clear structure"), ("overlapping", "overlapping"), (NONE, "none")):
        rows.append([f"**right: {words}**", "", *(share_right(found, m, kind) for m in methods)])
    return "\n".join([*table(["data", "true", *methods], rows), *cost_of_choosing(found)])


def cost_of_choosing(found: dict[str, Any]) -> list[str]:
    """Return what choosing costs beside a fit, once that has been measured."""
    if (seconds := found.get("seconds")) is None:
        return []
    return [
        "",
        "Choosing among 2 to 30 clusters of 200,000 rows × 64 columns took "
        f"{seconds['choose']:.2f} s, {seconds['ratio']:.1f} times a single fit with 30 clusters "
        f"and `n_init=3` ({seconds['fit']:.2f} s); the goal was 3 times. Medians of five.",
    ]


def right_of(answers: dict[str, int], true: list[int]) -> str:
    """Return one cell: how often the number was right, and which were not."""
    if not answers:
        return "–"
    wrong = sorted({k for k in answers.values() if k not in true})
    right = sum(k in true for k in answers.values())
    also = f" ({wrong[0]}…{wrong[-1]})" if len(wrong) > 1 else f" ({wrong[0]})" if wrong else ""
    return f"{right}/{len(answers)}{also}"


def share_right(found: dict[str, Any], method: str, kind: str) -> str:
    """Return how often a method was right on data of a kind that all methods have answered."""
    methods = {name for answers in found["chosen"].values() for name in answers}
    answers = [
        k in about["true"]
        for case, about in found["cases"].items()
        if about["kind"] == kind and methods <= set(found["chosen"].get(case, {}))
        for k in found["chosen"].get(case, {}).get(method, {}).values()
    ]
    return f"**{sum(answers) / len(answers):.0%}**" if answers else "–"


# Page, name of the markers, what stands between them.
PARTS = [
    ("README.md", "results", five_rows),
    ("docs/benchmarks.md", "results", everything),
    ("docs/scale.md", "results", scale),
    ("docs/interpretability.md", "results", explanations),
    ("docs/choosing.md", "chosen", chosen),
    ("docs/choosing.md", "outliers", outliers),
]


def fresh(text: str, part: str, name: str = "results") -> str:
    """Return the page with what stands between the markers written anew."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{part}\n{end}{rest.split(end)[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    check = parser.parse_args().check
    stale = False
    for name, marker, render in PARTS:
        page = ROOT / name
        old = page.read_text(encoding="utf-8")
        new = fresh(old, render(), marker)
        stale |= new != old
        if not check:
            page.write_text(new, encoding="utf-8")
    return int(check and stale)


if __name__ == "__main__":
    raise SystemExit(main())
