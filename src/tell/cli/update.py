"""`tell update`: let a model learn from further rows, from a file or an endless stream."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer

from tell.cli import options
from tell.cli.console import err, out, plain, print_json, say
from tell.progress import progress

if TYPE_CHECKING:
    from types import FrameType

    from tell.data.chunks import Source
    from tell.runtime.learner import Learning

MOST_UNSAVED = 1 << 26  # bytes of rows that are kept for a merge; more are saved at once

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
    from tell.contract import UpdatableModel
    from tell.exceptions import ParameterError
    from tell.runtime.learner import Learning
    from tell.runtime.model_rows import open_like

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


def learn_all(
    learning: Learning, source: Source, *, save_rows: int, save_seconds: float, visible: bool
) -> bool:
    """Learn until the rows end (True) or somebody stops it (False); either way, save.

    Whatever goes wrong while rows are read is raised after what was learned has been saved.
    """

    def save_now() -> None:
        if learning.rows > learning.saved:
            learning.save(finished=False)
            if not visible:
                say(f"{_now()} saved after {learning.rows:,} rows")

    finished = False
    with (
        progress("update", source.n_rows, visible=visible) as bar,
        Interruption(save_now, save_seconds) as interruption,
    ):
        try:
            for chunk in source.chunks():
                with interruption.put_off():
                    learning.take(chunk)
                    due = learning.rows - learning.saved >= save_rows or learning.has_news
                    if due or learning.unsaved_bytes >= MOST_UNSAVED:
                        save_now()
                bar.update(chunk.start + len(chunk), rows=f"{learning.rows:,}")
            finished = True
        except KeyboardInterrupt:
            pass
        except BaseException:
            interruption.ignore()
            save_now()  # a stream cannot be read again
            raise
        interruption.ignore()
        learning.save(finished=finished)
        learning.finished = finished
    return finished


def _now() -> str:
    """The time for a log."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Interruption:
    """What happens between batches: regular saves, and the end when Ctrl-C or SIGTERM asks for it.

    Signals interrupt the waiting for rows, but never the learning from them or the saving.

    Parameters
    ----------
    save : callable
        Called every `seconds`, also while no row arrives.
    seconds : float
    """

    def __init__(self, save: Callable[[], None], seconds: float) -> None:
        self._save, self._seconds = save, seconds
        self._busy = self._stop = self._due = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_stop)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_time)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop = True
        if not self._busy:
            raise KeyboardInterrupt

    def _on_time(self, number: int, frame: FrameType | None) -> None:
        self._due = True
        if not self._busy:
            with self.put_off():
                pass

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Let the block finish, then do what was asked for meanwhile."""
        self._busy = True
        yield
        if self._due:
            self._due = False
            self._save()
        self._busy = False
        if self._stop:
            raise KeyboardInterrupt

    def ignore(self) -> None:
        """Put off everything from here on: the last save is being written."""
        self._busy = True
