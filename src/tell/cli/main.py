"""The command `tell`: the table of commands, and the one place where errors become exit codes.

Exit codes: 0 done, 1 the run failed or was stopped, 2 the input or the usage is wrong.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tell import __version__
from tell.cli.console import complain, short_warnings
from tell.exceptions import DivergedError, MissingDependencyError, TellError

# The panels of `tell --help`, in the order in which people meet the commands.
PANELS = {
    "Start here": ["demo"],
    "Cluster your data": ["choose", "fit", "predict", "update", "show", "name", "data"],
    "Understand and compare": ["explain", "compare", "reproduce"],
    "Use it elsewhere": ["export", "serve", "watch"],
}

# Typer carries a copy of click inside itself; this base class is reachable in every version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="tell",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tell {__version__}")
        raise typer.Exit


@app.callback(
    epilog="\b\n[bold]Try it:[/]\n"
    "  tell demo                              digits, in under a minute\n"
    "  tell fit flowers.csv -k 3 --out model  cluster a table, keep the model\n"
    "  tell predict model new.csv             label new rows with it\n"
    "  tail -f log.csv | tell update model -  keep learning from a stream\n\n"
    "Every command explains itself: [bold]tell fit --help[/].",
)
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Cluster tables, images and streams with k-means as a neural layer that can say why."""


def exit_code(error: BaseException) -> int:
    """2 where the user can mend the input or the call, 1 where the run itself failed."""
    if isinstance(error, DivergedError | MissingDependencyError):
        return 1
    mendable = (TellError, FileNotFoundError, IsADirectoryError, NotADirectoryError)
    return 2 if isinstance(error, (*mendable, PermissionError, FileExistsError)) else 1


def describe(error: BaseException, checkpoint: object = None) -> str:
    """Say in one line what went wrong; a command with a checkpoint can go on."""
    if isinstance(error, KeyboardInterrupt):
        if isinstance(checkpoint, Path) and checkpoint.is_dir():
            return f"stopped; the same command goes on from what is in {checkpoint}"
        return "stopped; nothing half-written was left behind"
    if isinstance(error, MemoryError):
        return "out of memory; give fewer rows or columns, or a Parquet file to stream from"
    if isinstance(error, TellError) or not isinstance(error, OSError):
        known = isinstance(error, TellError)
        text = " ".join(str(error).split())
        remedy = "please report it; TELL_DEBUG=1 shows where"
        return text if known else f"unexpected {type(error).__name__}: {text}; {remedy}"
    where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
    return f"{where}{(error.strerror or str(error)).lower()}"


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Let no exception out of a command: one line on standard error and an exit code."""

    @functools.wraps(command)
    def run(*args: object, **options: object) -> None:
        try:
            with short_warnings():
                command(*args, **options)
            sys.stdout.flush()
        except (typer.Exit, UsageError):
            raise
        except BrokenPipeError:
            _close_quietly()
        except (Exception, KeyboardInterrupt) as error:
            if os.environ.get("TELL_DEBUG"):
                raise
            complain(describe(error, options.get("checkpoint")))
            raise typer.Exit(exit_code(error)) from None

    return run


def _close_quietly() -> NoReturn:
    """The reader of our output went away (`tell show model | head`): nothing to complain about."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(1)


def _register() -> None:
    """Add every command whose module is there; modules import nothing heavy until called."""
    for panel, names in PANELS.items():
        for name in names:
            if find_spec(f"tell.cli.{name}"):
                command = import_module(f"tell.cli.{name}").command
                app.command(name, rich_help_panel=panel)(guarded(command))


_register()


def main() -> int:
    """Run the command line; the exit code is returned or, after a failure, final."""
    code = run()
    if code:
        # A file that was given up half-read may have reader threads, and the interpreter's own
        # way out aborts the process if one of them wakes up meanwhile.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return 0


def run() -> int:
    """Run the command line and return its exit code."""
    # Idle worker threads sleep instead of spinning: others may be working on this machine too.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Being terminated cleans up just as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return app(standalone_mode=False) or 0
    except UsageError as error:
        hint = getattr(getattr(error, "ctx", None), "command_path", "tell")
        # `tell` alone has already printed its help and says nothing more.
        if message := str(getattr(error, "format_message", error.__str__)()):
            complain(f"{' '.join(message.split()).rstrip('.')}; see {hint} --help")
        return 2
    except typer.Abort:
        complain(describe(KeyboardInterrupt()))
        return 1
