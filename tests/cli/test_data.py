"""`tell data` lists, fetches and finds; what it cannot do it says in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tell.cli.main import app
from tell.data import cache, datasets


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TELL_DATA", raising=False)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["data", *arguments], env={"COLUMNS": "100"})
    return result.exit_code, result.stdout, result.stderr


def test_list_names_every_set() -> None:
    code, shown, _ = run("list")
    assert code == 0
    assert all(name in shown for name in datasets.names())
    assert "3 × 32 × 32" in shown


def test_json_is_one_document() -> None:
    code, shown, _ = run("list", "--json")
    sets = {entry["name"]: entry for entry in json.loads(shown)}
    assert (code, list(sets)) == (0, list(datasets.names()))
    assert sets["digits"]["here"]
    assert (sets["mnist"]["here"], sets["mnist"]["path"]) == (False, None)
    assert json.loads(run("get", "digits", "--json")[1]) == sets["digits"]


def test_get_and_path(tmp_path: Path) -> None:
    assert run("get", "digits") == (0, "digits: 1,797 rows of 1 × 8 × 8, 10 classes\n", "")
    place = cache.cache_dir() / "mnist"
    place.mkdir(parents=True)
    np.save(place / "images.npy", np.zeros((70_000, 784), np.uint8))
    np.save(place / "labels.npy", np.zeros((70_000, 1), np.uint8))
    code, shown, _ = run("path", "mnist-test")
    assert (code, shown.strip()) == (0, str(place))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("get", "cifar100", "--offline"), "TELL_DATA"),
        (("get", "mnist", "--data-dir", "nowhere"), "nowhere must be a folder"),
        (("path", "cifar10"), "run tell data get cifar10"),
        (("path", "minst"), "there is no data set 'minst'"),
        (("get",), "needs the NAME"),
    ],
)
def test_mistakes_are_one_line_and_code_2(arguments: tuple[str, ...], message: str) -> None:
    code, shown, error = run(*arguments)
    assert (code, shown) == (2, "")
    assert message in error
    assert error.count("\n") == 1
