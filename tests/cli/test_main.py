"""The table of commands, help, exit codes and the error boundary."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import typer

from tell import __version__
from tell.cli import main as cli
from tell.cli.main import describe, exit_code, guarded
from tell.exceptions import DivergedError, InputError, MissingDependencyError

from .conftest import Run, environment

Tell = Callable[..., Run]
COMMANDS = [command.name for command in cli.app.registered_commands]


def test_help_lists_the_commands_and_shows_how_to_begin(cold_tell: Tell) -> None:
    text = cold_tell("--help").worked()
    for name in ("demo", "fit", "predict", "update", "show"):
        assert name in COMMANDS
        assert f" {name} " in text
    assert "tell fit flowers.csv -k 3" in text
    assert max(map(len, text.splitlines())) <= 80


def test_version(cold_tell: Tell) -> None:
    assert cold_tell("--version").worked() == f"tell {__version__}\n"


def test_only_commands_whose_module_exists_are_offered() -> None:
    folder = Path(cli.__file__).parent
    wanted = {name for names in cli.PANELS.values() for name in names}
    assert set(COMMANDS) == {name for name in wanted if (folder / f"{name}.py").exists()}


@pytest.mark.parametrize("name", ["demo", "fit", "predict", "update", "show"])
def test_every_command_teaches_with_help(tell: Tell, name: str) -> None:
    text = tell(name, "--help").worked()
    assert name == "demo" or f"tell {name} " in text.split("Examples")[1]
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["fit", "--help"], ["fit"], ["nonsense"]]
)
def test_help_version_and_usage_errors_load_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys; from tell.cli.main import run\n"
        f"sys.argv = ['tell', *{arguments!r}]; run()\n"
        "heavy = {'torch', 'sklearn', 'pyarrow', 'numpy', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr


def test_help_answers_at_once(cold_tell: Tell) -> None:
    def seconds() -> float:
        # Of work, not of waiting for other processes on a busy machine.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        cold_tell("--help").worked()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nonsense"], "nonsense"),
        (["fit"], "DATA"),
        (["fit", "digits", "-k", "0"], "--clusters"),
        (["fit", "digits", "-k", "many"], "--clusters"),
        (["fit", "digits", "-k", "3", "--geometry", "torus"], "torus"),
        (["fit", "digits", "-k", "3", "--colour", "red"], "--colour"),
        (["predict", "model"], "DATA"),
        (["update", "model", "rows.csv", "--batch", "0"], "--batch"),
    ],
)
def test_wrong_usage_is_one_line_that_points_to_help(
    tell: Tell, arguments: list[str], part: str
) -> None:
    line = tell(*arguments).failed()
    assert part in line
    assert "--help" in line


def test_exit_codes_tell_bad_input_from_a_failed_run() -> None:
    for error in (InputError("x"), FileNotFoundError(2, "no", "f"), PermissionError(13, "no", "f")):
        assert exit_code(error) == 2
    for failure in (
        DivergedError("x"),
        MissingDependencyError("x"),
        OSError(28, "full"),
        KeyError(),
    ):
        assert exit_code(failure) == 1


def test_errors_become_one_safe_line() -> None:
    assert describe(InputError("two\nlines")) == "two lines"
    assert describe(OSError(28, "No space left on device", "a/b")).endswith(
        "no space left on device"
    )
    assert "RuntimeError" in describe(RuntimeError("odd"))
    assert "TELL_DEBUG" in describe(RuntimeError("odd"))


def test_boundary_swallows_everything_but_exits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("TELL_DEBUG", raising=False)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as leaving:
        guarded(stop)()
    assert leaving.value.exit_code == 1
    assert "nothing half-written" in capsys.readouterr().err

    def stop_later(checkpoint: Path | None) -> None:
        raise KeyboardInterrupt

    for checkpoint, said in ((tmp_path, "the same command goes on"), (tmp_path / "x", "nothing")):
        with pytest.raises(typer.Exit):
            guarded(stop_later)(checkpoint=checkpoint)
        assert said in capsys.readouterr().err


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("odd")

    monkeypatch.setenv("TELL_DEBUG", "1")
    with pytest.raises(RuntimeError, match="odd"):
        guarded(fail)()


def test_a_reader_that_leaves_early_is_no_error(flower_model: Path) -> None:
    program = Path(sys.executable).with_name("tell")
    line = f"'{program}' predict '{flower_model}' '{flower_model.parent}/x.npy' --proba | head -1"
    np.save(flower_model.parent / "x.npy", np.ones((50_000, 4), dtype=np.float32))
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.stdout.startswith('"cluster"')
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
