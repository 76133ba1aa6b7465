"""`tell reproduce`: the paper's tables and figures from one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tell.cli import options
from tell.cli.console import err, out, print_json, say, table

if TYPE_CHECKING:
    from tell.reproduce.results import Result
    from tell.reproduce.spec import Run, Scale, Spec
    from tell.reproduce.workspace import Workspace


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGETS]",
            help="table1 … table6, s1, s2, fig5 … fig8, theory, or all.",
            show_default="all",
        ),
    ] = None,
    scale: Annotated[
        Literal["smoke", "cpu", "full"],
        typer.Option(
            "--scale",
            help="smoke: everything in minutes on digits; cpu: the full data, hours on two cores; "
            "full: the paper's protocol.",
        ),
    ] = "smoke",
    folder: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder of results; runs that are there are kept."),
    ] = Path("reproduction"),
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="TEXT",
            help="Run only what contains TEXT in DATA/METHOD/seed-N, e.g. mnist/tell-cnn; "
            "may be repeated.",
            show_default=False,
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page",
            metavar="FILE",
            help="Also write one Markdown page of everything.",
            show_default=False,
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            "--features",
            metavar="FILE.npz",
            help="Features X, classes y of another network, instead of IIC's in table 4.",
            show_default=False,
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", help="Folder with the data sets' files; default: $TELL_DATA."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            min=1,
            help="Runs side by side, each in a process of its own with one thread.",
        ),
    ] = 1,
    precision: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option(
            "--precision",
            help="Of the products in the training of networks. bfloat16 is faster where the "
            "processor computes in it; the results say which.",
        ),
    ] = "float32",
    taken: Annotated[
        Path | None,
        typer.Option(
            "--import",
            metavar="FOLDER",
            help="First take over what is done in FOLDER: results of another machine or of an "
            "older layout.",
            show_default=False,
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what has failed.")] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Only say what is done and what is missing.")
    ] = False,
    render: Annotated[
        bool, typer.Option("--render", help="Only render what is there: tables, figures, page.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run the paper's experiments and put the numbers beside the paper's.

    Every run is kept at once: after an interruption the same command goes on where it stopped, and
    tables that share a run share its result.

    \b
    [bold]Examples[/]
      tell reproduce                              everything, small, in minutes
      tell reproduce table5 --scale cpu           one table on the full data
      tell reproduce table6 --scale cpu --jobs 2  two runs at a time
      tell reproduce --status --scale cpu         what is done, what is missing
      tell reproduce --render --scale cpu --page reproduction.md
      tell reproduce table1 --scale cpu --out docs/reproduction
                                                  go on with the results of this repository
    """
    from tell.reproduce.spec import load_scale, load_targets
    from tell.reproduce.workspace import Workspace

    size = load_scale(scale)
    specs = load_targets(targets or ["all"], size)
    failed = 0
    if taken is not None:
        _import(taken, folder, size, quiet=quiet)
    if not (status or render):
        visible = err.is_terminal and not (quiet or json)
        workspace = Workspace(folder, data_dir, features, visible, precision)
        failed = _run(specs, size, workspace, only or [], jobs=jobs, retry=retry, quiet=quiet)
    if not status:
        _render(specs, size, folder, page, quiet=quiet)
    _report(specs, size, folder, json=json)
    if failed:
        say(f"{failed} of the runs failed, for the reasons in the results; --retry tries again")
        raise typer.Exit(1)


def _import(source: Path, folder: Path, scale: Scale, *, quiet: bool) -> None:
    from tell.reproduce.result_import import import_results

    added = import_results(source, folder, scale)
    if not quiet:
        say(f"took over {len(added)} results from {source}")


def _run(
    specs: list[Spec],
    scale: Scale,
    workspace: Workspace,
    only: list[str],
    *,
    jobs: int,
    retry: bool,
    quiet: bool,
) -> int:
    """Run what is missing; return how many runs failed, now or before."""
    from tell.exceptions import ParameterError
    from tell.reproduce.run import plan, run_missing
    from tell.reproduce.verdicts import read_verdicts, record_descents, write_verdicts

    def watch(run: Run, number: int, total: int, result: Result) -> None:
        if not quiet:
            say(f"[{number}/{total}] {run.place}: {_outcome(result)}")

    runs = plan(specs, scale, only)
    if only and not runs:
        raise ParameterError(
            f"--only must match a run of these targets, got {', '.join(only)}; a run is called "
            "DATA/METHOD/seed-N, e.g. mnist/tell-cnn/seed-0"
        )
    if workspace.given is not None:
        _ = workspace.given_rows  # complain about the file before hours of other runs
    results = run_missing(runs, workspace, watch, jobs=jobs, retry=retry)
    for spec in specs:
        if not only and spec.kind == "theory" and not read_verdicts(workspace.folder, spec, scale):
            write_verdicts(workspace.folder, spec, scale, record_descents(spec, scale))
    return sum(result.status == "failed" for result in results)


def _outcome(result: Result) -> str:
    if result.status != "done":
        return f"{result.status}: {result.reason}"
    return f"ACC {result.value('acc'):.2f} in {result.seconds:.1f} s"


def _render(
    specs: list[Spec], scale: Scale, folder: Path, page: Path | None, *, quiet: bool
) -> None:
    from tell.reproduce.figures import draw
    from tell.reproduce.page import TABLE_KINDS, write_page, write_tables

    written = write_tables(specs, scale, folder)
    for spec in specs:
        if spec.kind not in TABLE_KINDS:
            written += draw(spec, scale, folder)
    if page is not None:
        write_page(specs, scale, folder, page)
        written.append(page)
    if not quiet:
        for file in written:
            say(f"wrote {file}")


def _report(specs: list[Spec], scale: Scale, folder: Path, *, json: bool) -> None:
    from tell.reproduce.page import status_of

    found = [status_of(spec, scale, folder) for spec in specs]
    if json:
        names = ("total", "done", "failed", "unavailable", "missing", "seconds")
        print_json({s.spec.name: {name: getattr(s, name) for name in names} for s in found})
        return
    grid = table("target", "done", "failed", "no data", "not run", "minutes", text=("target",))
    for s in found:
        cells = (f"{s.done}/{s.total}", s.failed, s.unavailable, s.missing)
        grid.add_row(s.spec.name, *map(str, cells), f"{s.seconds / 60:.1f}")
    out.print(grid)
