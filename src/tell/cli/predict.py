"""`tell predict`: label rows with a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tell.cli import options
from tell.cli.console import err, print_json, say

if TYPE_CHECKING:
    from tell.data.chunks import Source

# Rows at a time: with 1,000 clusters and --distances this is 130 MB.
CHUNK_ROWS = 16384


def command(
    model: options.Model,
    data: options.Data,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="File for the labels: .csv, .parquet, .npy or .npz. Without it, CSV goes to "
            "standard output. With [bold]--workers[/] a folder, for one .parquet file per worker.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    proba: Annotated[
        bool,
        typer.Option(
            "--proba", help="Add the soft assignment to every cluster.", rich_help_panel="Output"
        ),
    ] = False,
    distances: Annotated[
        bool,
        typer.Option(
            "--distances", help="Add the distance to every centre.", rich_help_panel="Output"
        ),
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="A,B",
            help="Columns of DATA to write beside the labels; default: those that name the rows, "
            "as far as the fit has recognised them.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    reject: Annotated[
        str | None,
        typer.Option(
            "--reject",
            metavar="SHARE",
            help="Give -1 to rows that lie farther from their centre than all but this share of "
            "the cluster's fitted rows, such as 1% or 0.01.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    label: options.Label = None,
    memory: options.Memory = options.DEFAULT_MEMORY,
    trust: options.Trust = False,
    workers: options.Workers = None,
    address: options.Address = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Give every row of DATA the number of its cluster, and its name where it has one.

    Columns are matched by name, in whatever order they come, and prepared as they were for
    the fit. A row that the model's [bold]--gaps drop[/] leaves out gets the number -1. Images
    keep their file names, and tables the column that names their rows.

    \b
    [bold]Examples[/]
      tell predict model new.csv --out labels.csv
      tell predict model new.parquet --out labels.parquet --proba --distances
      tell predict model new.csv --keep id,name | head
      tell predict model new.csv --reject 1%
    """
    from tell.cli.labelling import write_labels
    from tell.cli.writers import check_target
    from tell.runtime.model_rows import open_like

    wanted = options.names(keep)
    share = options.share("--reject", reject)
    if workers is not None:
        more = proba or distances or bool(wanted) or share is not None
        result = label_in_parallel(model, data, target, workers, address, more)
        print_json(result) if json else print_news(result)
        return
    check_target(target, data, many_columns=proba or distances or bool(wanted))
    fitted = open_model(model, trust=trust, share=share, labels_only=not (proba or distances))
    source = open_like(
        fitted, data, label=label, keep_gaps=True, chunk_rows=CHUNK_ROWS, memory=memory
    )
    result = write_labels(
        fitted,
        source,
        target,
        keep=id_columns(fitted, source, target) if wanted is None else wanted,
        proba=proba,
        distances=distances,
        reject=share,
        silent=json,
        visible=err.is_terminal and not (quiet or json),
    )
    print_json(result) if json else print_news(result)


def id_columns(model: Any, source: Source, target: Path | None) -> list[str]:
    """Columns that name the rows, as far as the model knows; one array has no place for them."""
    learned = getattr(model, "preparation_", None)
    if learned is None or (target is not None and target.suffix.lower() == ".npy"):
        return []
    there = getattr(source, "available", [])
    return [c.name for c in learned.columns if c.kind == "id" and c.name in there]


def open_model(folder: Path, *, trust: bool, share: float | None, labels_only: bool) -> Any:
    """Open the model: for labels alone without torch, whose loading would take most of the time."""
    if share is None and labels_only:
        from tell.estimators.labeller import open_labeller

        return open_labeller(folder, trust=trust)
    from tell import load

    model = load(folder, trust=trust)
    check_rejects(model, share)
    return model


def check_rejects(model: Any, share: float | None) -> None:
    """Say before any row is read that a model keeps no distances."""
    from tell import TELL
    from tell.exceptions import ParameterError

    if share is not None and not isinstance(model, TELL):
        raise ParameterError(
            f"--reject needs a model of tell fit without --deep, got a {type(model).__name__}; "
            "leave it out"
        )


def label_in_parallel(
    folder: Path, data: str, target: Path | None, workers: int, address: str | None, more: bool
) -> dict[str, Any]:
    """Have every worker label its rows and write a file of them."""
    from tell import TELL, load
    from tell.cli.fitting import connect
    from tell.estimators.all_rows import write_shards
    from tell.exceptions import ParameterError
    from tell.runtime.model_rows import open_like

    if target is None or target.suffix or target.is_file() or more:
        raise ParameterError(
            "--workers writes the numbers of the clusters into a folder; name one with --out, and "
            "leave out --proba, --distances, --keep and --reject"
        )
    fitted = load(folder)
    if not isinstance(fitted, TELL):
        raise ParameterError("--workers needs a model of tell fit without --deep")
    connect(workers, address)
    source = open_like(fitted, data, keep_gaps=True)
    target.mkdir(parents=True, exist_ok=True)
    fitted.workers = workers
    gaps, *sizes = write_shards(fitted, source, target)
    return {
        "rows": sum(sizes) + gaps,
        "unlabelled": gaps,
        "with_filled_gaps": None,  # not counted by workers
        "sizes": sizes,
        "metrics": None,
        "names": None,
        "data": source.name,
        "out": str(target),
    }


def print_news(result: dict[str, Any]) -> None:
    """Say on standard error what was done; standard output may be the labels themselves."""
    text = f"{result['rows']:,} rows labelled"
    if result["unlabelled"]:
        text += f", {result['unlabelled']:,} of them -1 ({_why_unlabelled(result)})"
    if result["with_filled_gaps"]:
        text += f", {result['with_filled_gaps']:,} of them with gaps that were filled"
    if result["out"]:
        text += f"; written to {result['out']}"
    say(text)
    if result["metrics"]:
        say("  ".join(f"{name} {value:.3f}" for name, value in result["metrics"].items()))


def _why_unlabelled(result: dict[str, Any]) -> str:
    rejected = result.get("rejected", 0)
    if not rejected:
        return "missing values"
    far = f"{rejected:,} too far from their centre"
    gaps = result["unlabelled"] - rejected
    return far if not gaps else f"{far}, {gaps:,} with missing values"
