"""A model folder runs no code unless somebody allows it, and then only what builds networks."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tell
from tell import DeepTELL
from tell.cli.main import app
from tell.estimators import DistilRecipe
from tell.estimators.deep.networks import import_network
from tell.exceptions import ModelFileError, ParameterError, UntrustedModelError
from tell.persistence import read_model, write_model

QUICK = DistilRecipe(epochs=1, n_init=1)
ROWS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)

OWN = """
    import torch
    from torch import nn
    from pathlib import Path
    import tell

    CALLS = []

    class Encoder(nn.Linear):
        def __init__(self):
            super().__init__(6, 2)

    @tell.network_builder
    def build():
        torch.manual_seed(0)
        return nn.Linear(6, 2)

    def unmarked():
        CALLS.append("unmarked")
        return nn.Linear(6, 2)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of somebody's own on the path."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "own_networks.py").write_text(textwrap.dedent(OWN))
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.delitem(sys.modules, "own_networks", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest") / "model"
    DeepTELL(2, encoder="mlp", recipe=QUICK, random_state=0).fit(ROWS).save(folder)
    return folder


@pytest.fixture
def deep(tmp_path: Path, honest: Path) -> Callable[[str], Path]:
    """Write a model folder that names any code as its encoder."""

    def make(path: str) -> Path:
        folder = tmp_path / "hostile"
        saved = read_model(honest)
        saved.config["options"]["encoder"] = path
        write_model(folder, saved.kind, saved.config, saved.tensors)
        return folder

    return make


@pytest.mark.parametrize(
    "path", ["os:abort", "sys:exit", "os:fork", "nowhere:at_all", ":", "a:b:c"]
)
def test_code_that_a_folder_names_is_not_run(deep: Callable[[str], Path], path: str) -> None:
    folder = deep(path)
    with pytest.raises(UntrustedModelError, match=r"names code.*trust=True.*--trust"):
        tell.load(folder)


@pytest.mark.parametrize("path", ["os:abort", "sys:exit", "os:fork", "builtins:print", "torch:nn"])
def test_even_a_trusted_folder_has_only_networks_built(
    deep: Callable[[str], Path], path: str
) -> None:
    with pytest.raises(ModelFileError, match=r"class of torch modules or a function marked"):
        tell.load(deep(path), trust=True)


def test_modules_are_not_imported_without_trust(own: Path, deep: Callable[[str], Path]) -> None:
    folder = deep("own_networks:Encoder")
    with pytest.raises(UntrustedModelError):
        tell.load(folder)
    assert "own_networks" not in sys.modules


@pytest.mark.parametrize("name", ["Encoder", "build"])
def test_networks_of_ones_own_come_back_with_trust(own: Path, name: str) -> None:
    model = DeepTELL(2, encoder=f"own_networks:{name}", recipe=QUICK, random_state=0).fit(ROWS)
    model.save(own / "model")
    with pytest.raises(UntrustedModelError, match=f"own_networks:{name}"):
        tell.load(own / "model")
    loaded = tell.load(own / "model", trust=True)
    np.testing.assert_array_equal(loaded.predict(ROWS), model.predict(ROWS))
    loaded.partial_fit(ROWS)
    loaded.save(own / "model")


def test_a_function_that_is_not_marked_is_never_called(own: Path) -> None:
    with pytest.raises((ParameterError, ModelFileError), match="network_builder"):
        DeepTELL(2, encoder="own_networks:unmarked", recipe=QUICK).fit(ROWS)
    assert sys.modules["own_networks"].CALLS == []


def test_show_says_what_an_untrusted_folder_is(deep: Callable[[str], Path]) -> None:
    folder = deep("os:abort")
    shown = CliRunner().invoke(app, ["show", str(folder)])
    assert shown.exit_code == 0
    assert "DeepTELL, 2 clusters, 6 columns" in shown.stdout
    assert "os:abort" in shown.stdout
    assert "--trust" in shown.stdout
    facts = json.loads(CliRunner().invoke(app, ["show", str(folder), "--json"]).stdout)
    assert (facts["encoder"], facts["n_clusters"], facts["trusted"]) == ("os:abort", 2, False)
    refused = CliRunner().invoke(app, ["show", str(folder), "--trust"])
    assert refused.exit_code == 2


def test_other_commands_refuse_and_say_how_to_allow_it(
    deep: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = deep("os:abort")
    np.save(tmp_path / "rows.npy", ROWS)
    for command in ("predict", "update", "explain"):
        result = CliRunner().invoke(app, [command, str(folder), str(tmp_path / "rows.npy")])
        assert result.exit_code == 2
        assert "--trust" in result.stderr


def test_a_class_that_needs_arguments_is_named() -> None:
    with pytest.raises(ModelFileError, match="buildable without arguments"):
        import_network("torch.nn:Linear")
