"""`tell update`: let a model learn from further rows, from a file or an endless stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tell.cli import options
from tell.cli.console import err, out, plain, print_json, say

if TYPE_CHECKING:
    from tell.cli.learning import Learning
    from tell.data.chunks import Source

_SAVING = "Saving"


def command(
    model: options.Model,
    data: options.Data,
    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            metavar="ROWS",
            min=1,
            help="Most rows to learn from at once.",
            rich_help_panel="Data",
        ),
    ] = 1024,
    label: options.Label = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on where the last, interrupted update with the same DATA was saved.",
            rich_help_panel="Data",
        ),
    ] = False,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option(
            "--on-error",
            help="What to do about a line that cannot be used: stop, with the rows above it "
            "learned and saved, or skip and count it. For standard input and JSON lines.",
            rich_help_panel="Data",
        ),
    ] = "stop",
    half_life: options.HalfLife = None,
    grow: Annotated[
        bool,
        typer.Option(
            "--grow",
            help="Make a cluster of rows that belong to none, once they have gathered for 1,000 "
            "rows; retire one that gets none for 10,000. The model keeps this setting.",
            rich_help_panel="Model",
        ),
    ] = False,
    memory: options.Memory = options.DEFAULT_MEMORY,
    prequential: Annotated[
        bool,
        typer.Option(
            "--prequential",
            help="Score every row before learning from it: an honest test on a stream.",
            rich_help_panel="Model",
        ),
    ] = False,
    save_rows: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Save at least every N rows.", rich_help_panel=_SAVING
        ),
    ] = 100_000,
    save_seconds: Annotated[
        float,
        typer.Option(
            metavar="S", min=0.1, help="Save at least every S seconds.", rich_help_panel=_SAVING
        ),
    ] = 10.0,
    trust: options.Trust = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Let a model learn from new rows, and save it as it goes.

    Every save replaces the model folder as a whole: killed at any moment, it holds the last save.
    Ctrl-C saves and stops. When rows stop fitting the clusters, a drift warning says so, with the
    rows and the cluster. The exit code is 0 at the end of the rows or when a stream is stopped, 1
    when a file is left half-read, and 2 at a row that cannot be used.

    \b
    [bold]Examples[/]
      tell update model monday.csv
      tail -f log.csv | tell update model - --half-life 10000
      tail -f log.csv | tell update model - --grow
      tell update model labelled.csv --prequential --label species
    """
    from tell import load
    from tell.cli.learning import Learning, learn_all
    from tell.cli.opening import open_like
    from tell.contract import UpdatableModel
    from tell.exceptions import ParameterError

    fitted = load(model, trust=trust)
    if not isinstance(fitted, UpdatableModel):
        raise ParameterError(
            f"{model} must hold a model of tell fit to learn from rows, got a k-means that was "
            "fitted elsewhere; fit a new model"
        )
    if half_life is not None:
        if "half_life" not in fitted.get_params():
            raise ParameterError(
                f"--half-life needs a model of tell fit without --deep, got a "
                f"{type(fitted).__name__}; leave it out"
            )
        fitted.set_params(half_life=half_life)
    if grow:
        if "grow" not in fitted.get_params():
            raise ParameterError(
                f"--grow needs a model of tell fit without --deep, got a {type(fitted).__name__}; "
                "leave it out"
            )
        fitted.set_params(grow=True)
    source = open_like(fitted, data, label=label, keep_gaps=True, chunk_rows=batch, memory=memory)
    learning = Learning(
        fitted, model, source, resume=resume, score=prequential, trust=trust, tell_news=say
    )
    if on_error == "skip":
        _skip_bad_lines(source, learning)
    say(learning.opening())
    bar = err.is_terminal and not (quiet or json)
    finished = learn_all(
        learning, source, save_rows=save_rows, save_seconds=save_seconds, visible=bar
    )
    print_json(learning.summary()) if json else print_news(learning)
    # A stream has no end of its own, so stopping one is not a failure; leaving a file half-read is.
    if not finished and source.rereadable:
        say(f"stopped before the end of {source.name}; --resume goes on from here")
        raise typer.Exit(1)


def _skip_bad_lines(source: Source, learning: Learning) -> None:
    from tell.data.streams import LineSource
    from tell.exceptions import ParameterError

    if not isinstance(source, LineSource):
        raise ParameterError(
            f"--on-error skip must come with standard input (-) or JSON lines, got {source.name}; "
            f"pipe it: cat {source.name} | tell update MODEL - --on-error skip"
        )
    source.on_error = learning.refuse


def print_news(learning: Learning) -> None:
    """Tell people what was learned."""
    from tell.explanations.words import counted

    result: dict[str, Any] = learning.summary()
    out.print(
        f"learned from {result['rows']:,} rows; the model has now seen {result['rows_seen']:,}"
    )
    if result["skipped"]:
        out.print(f"{result['skipped']:,} rows with missing values were left out")
    if result["refused"]:
        out.print(f"{result['refused']:,} lines could not be used and were skipped")
    if result["prequential"]:
        scores = result["prequential"]
        out.print("before learning from them, these rows scored:")
        out.print("  ".join(f"{name} {value:.4g}" for name, value in scores.items()))
    if result["growth"]:
        events = [entry["event"] for entry in result["growth"]]
        born, retired = events.count("born"), events.count("retired")
        out.print(f"[yellow]clusters: {born} born, {retired} retired[/]; see above")
    if result["drift_warnings"]:
        warned = counted(result["drift_warnings"], "drift warning")
        out.print(f"[yellow]{warned}[/]; see above")
    out.print(f"model: {plain(result['model'])}", markup=False)
