"""`tell compare`: several methods on one data set, ranked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tell.cli import options
from tell.cli.console import err, out, plain, print_json, say, table

if TYPE_CHECKING:
    from rich.table import Table

    from tell.compare.limited_process import Limits, Run
    from tell.compare.ranking import Row, Task
    from tell.data.chunks import Source

_METHODS, _OUTPUT = "Methods", "Output"


def command(
    data: options.Data,
    clusters: options.Clusters,
    methods: Annotated[
        str,
        typer.Option(
            "--methods",
            "-m",
            metavar="A,B",
            help="kmeans gmm fcm sc lrr lsr1 lsr2 slrr lsc-r lsc-k nmf zac dec vade tell "
            "deep-tell, or all; all,-zac leaves one out.",
            rich_help_panel=_METHODS,
        ),
    ] = "all",
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Runs per method.", rich_help_panel=_METHODS)
    ] = 5,
    features: Annotated[
        str,
        typer.Option(
            "--features",
            metavar="WHAT",
            help="What the methods see: raw, ae (features of an autoencoder), or the folder of a "
            "model of tell fit --deep.",
            rich_help_panel=_METHODS,
        ),
    ] = "raw",
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=1,
            help="Methods whose memory grows as n² cluster N rows; the others take the label of "
            "the nearest of these.",
            rich_help_panel=_METHODS,
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option("--time-limit", metavar="S", min=1, help="Seconds that one run may take."),
    ] = 600.0,
    gigabytes: Annotated[
        float,
        typer.Option("--memory-limit", metavar="GB", min=0.1, help="Memory of one run."),
    ] = 8.0,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="Threads per run.", show_default="all cores"),
    ] = None,
    columns: options.Columns = None,
    drop: options.Drop = None,
    label: options.Label = None,
    types: options.Types = None,
    prepare: options.Prepare = True,
    gaps: options.Gaps = "fill",
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize",
            help="Bring every column to mean 0 and deviation 1 first, for all methods.",
            rich_help_panel="Data",
        ),
    ] = False,
    folder: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Folder for runs and labels; runs that are there are not repeated.",
            rich_help_panel=_OUTPUT,
        ),
    ] = Path("compare"),
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write a page with a figure: quality against time.",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ] = None,
    trust: options.Trust = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run several clustering methods one after another and rank them.

    Every method has a process of its own with limits of time and memory. Runs are kept as they
    come: after an interruption the same command goes on where it stopped.

    \b
    [bold]Examples[/]
      tell compare digits -k 10 --methods kmeans,lsc-k,tell --seeds 3
      tell compare flowers.csv -k 3 --label species --html compare.html
      tell compare mnist -k 10 --features ae --sample 5000 --time-limit 1800
    """
    from tell.cli.fitting import how_to_prepare, open_new
    from tell.cli.writers import check_page
    from tell.compare.limited_process import Limits
    from tell.compare.ranking import chosen_methods, compare, rank
    from tell.compare.ranking_page import write_page

    check_page(html, data)
    chosen = chosen_methods(methods)
    limits = Limits(seconds, gigabytes, threads)
    source = open_new(
        data,
        columns=options.names(columns),
        drop=options.names(drop),
        label=label,
        prepare=how_to_prepare(prepare, options.types(types), gaps, standardize=standardize),
    )
    task = _task(source, clusters, features, standardize=standardize, trust=trust)
    if not quiet:
        _announce_memory(task, chosen, sample)
    with _LiveTable(chosen, seeds, visible=not quiet) as live:
        runs = compare(
            task,
            chosen,
            n_seeds=seeds,
            folder=folder,
            limits=limits,
            sample=sample,
            watch=live.show,
        )
    rows = rank(runs, folder / "labels")
    facts = _facts(task, seeds, limits)
    if html is not None:
        write_page(rows, html, title=f"Clustering {task.name}", facts=facts)
        say(f"wrote {html}")
    if json:
        print_json({"facts": facts, "rows": [vars(row) for row in rows]})
    else:
        _print_ranked(rows)
    if not any(run.status == "done" for run in runs):
        say("no run ended with a clustering; the reasons are above")
        raise typer.Exit(1)


def _task(source: Source, clusters: int, features: str, *, standardize: bool, trust: bool) -> Task:
    from sklearn.preprocessing import StandardScaler

    from tell.compare.features import features_of
    from tell.compare.ranking import Task

    rows, learned = source.read(), source.preparation
    X: Any = rows.X
    if learned is not None:
        X = (X - learned.offset) / learned.scale
    elif standardize:
        X = StandardScaler().fit_transform(X)
    X = features_of(X, features, trust=trust)
    shape = source.shape if features == "raw" else ()
    return Task(source.name, X, rows.y, clusters, shape, features)


def _announce_memory(task: Task, methods: list[str], sample: int | None) -> None:
    from tell.baselines import METHODS, make

    n, d = task.X.shape
    n = min(n, sample or n)
    for method in methods:
        if method in METHODS and METHODS[method].limited:
            needed = make(method, task.n_clusters).memory_needed(n, d)
            say(f"{method} on {n} rows needs about {needed / 1e9:.2g} GB")


def _facts(task: Task, seeds: int, limits: Limits) -> list[str]:
    n, d = task.X.shape
    return [
        f"{n} rows, {d} features ({task.features}), {task.n_clusters} clusters, {seeds} seeds",
        f"at most {limits.seconds:g} s and {limits.gigabytes:g} GB per run, "
        f"{limits.threads or 'all'} threads",
        "ACC, NMI, ARI in percent, means ± deviation over the seeds; silh.: silhouette on at most "
        "2,000 rows; CH: Calinski–Harabasz; stab.: mean adjusted Rand index between seeds; MB: "
        "peak memory of the whole process",
    ]


def _print_ranked(rows: list[Row]) -> None:
    from tell.compare.ranking_page import headings, note_of, table_lines

    grid = table(*headings(rows), text=("method",))
    for line in table_lines(rows):
        grid.add_row(*line)
    out.print(grid)
    for row in rows:
        if note := note_of(row):
            out.print(f"{row.method}: {plain(note)}", markup=False)


class _LiveTable:
    """The state of every method while the comparison runs."""

    def __init__(self, methods: list[str], seeds: int, *, visible: bool) -> None:
        from rich.live import Live

        self._seeds = seeds
        self._runs: dict[str, list[Run]] = {method: [] for method in methods}
        self._current = ""
        self._live = Live(console=err, auto_refresh=False, transient=True) if visible else None

    def __enter__(self) -> _LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, method: str, run: Run | None) -> None:
        """Take in what happened and draw again."""
        self._current = method
        if run is not None:
            self._runs[method].append(run)
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        grid = table("method", "runs", "state", "last", text=("method", "state"))
        for method, runs in self._runs.items():
            done = [run for run in runs if run.status == "done"]
            if len(done) < len(runs):
                state = f"{runs[-1].status}: {runs[-1].reason}"
            elif len(done) == self._seeds:
                state = "done"
            else:
                state = "running" if method == self._current else ""
            last = f"{done[-1].measures['seconds']:.1f} s" if done else ""
            grid.add_row(method, f"{len(done)}/{self._seeds}", plain(state), last)
        return grid
