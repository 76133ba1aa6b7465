"""The whole paper at the smoke scale, its interruption, and what the command says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner, Result

from tell.cli.main import app
from tell.experiments import run as running
from tell.experiments.figures import at_shares
from tell.experiments.recording import MOST, read_snapshots
from tell.experiments.results import Result as Outcome
from tell.experiments.results import read_result
from tell.experiments.spec import TARGETS, load_scale, load_spec, load_targets

SMOKE = load_scale("smoke")


def tell(*words: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, words)], catch_exceptions=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything, run once: the paper from one command."""
    place = tmp_path_factory.mktemp("reproduction")
    X, y = load_digits(return_X_y=True)
    np.savez(place / "given.npz", X=X[:140, ::4], y=y[:140])
    done = tell("--out", place, "--page", place / "page.md", "--features", place / "given.npz")
    assert done.exit_code == 0, done.output
    return place


@pytest.mark.timeout(900)
def test_smoke_runs_every_table_and_figure(folder: Path) -> None:
    shown = tell("--status", "--json", "--out", folder)
    status = json.loads(shown.stdout)
    assert list(status) == list(TARGETS)
    for name, counts in status.items():
        assert counts["done"] == counts["total"], (name, counts)
    tables = {file.name for file in (folder / "smoke" / "tables").iterdir()}
    assert {"table1.md", "table3.tex", "s2.md"} <= tables
    figures = {file.stem for file in (folder / "smoke" / "figures").iterdir()}
    assert figures == {"fig5", "fig6", "fig7", "fig8", "theory", "toy"}


def test_every_result_says_how_it_was_made(folder: Path) -> None:
    for run in running.plan(load_targets(["all"], SMOKE), SMOKE):
        result = read_result(folder, run)
        assert result is not None, run.place
        assert set(result.scores) >= {"acc", "nmi", "ari", "v_measure"}
        assert result.facts["versions"]["torch"]
        assert result.facts["machine"]["cores"] >= 1
        assert result.facts["command"].startswith("tell ")
        if run.method.estimator == "deep-tell":
            assert result.runs[0]["chosen"]
            assert {"acc", "nmi", "ari", "seconds"} <= set(result.history[-1])
            assert result.table_loss == pytest.approx(0.01 * (2 - (2 - (result.loss or 0)) / 10),
                                                      abs=2e-3)  # fmt: skip


def test_the_page_shows_everything_and_links_what_exists(folder: Path) -> None:
    text = (folder / "page.md").read_text()
    for name in TARGETS:
        assert f'<a id="{name}"></a>' in text
    links = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(links) == 6
    assert all((folder / link).exists() for link in links)
    assert "not run" not in text.split("## Table 1")[1]
    assert "hence concave" in text


def test_a_second_call_runs_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("this run has a result already")

    monkeypatch.setattr(running, "execute", never)
    assert tell("table5", "s1", "--out", folder, "--quiet").exit_code == 0


def test_an_interrupted_call_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def once(run: running.Run, shop: object) -> Outcome:
        ran.append(run.place)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return Outcome("failed", reason="only pretending")

    monkeypatch.setattr(running, "execute", once)
    assert tell("table6", "--out", tmp_path).exit_code == 1
    assert tell("table6", "--out", tmp_path).exit_code == 0
    assert len(ran) == 5  # four runs, the interrupted one twice
    assert ran[1] == ran[2]
    assert len(list(tmp_path.rglob("*.part"))) == 0


def test_what_needs_a_file_says_so_and_is_tried_again(tmp_path: Path) -> None:
    assert tell("table4", "--out", tmp_path, "--quiet").exit_code == 0
    text = (tmp_path / "smoke" / "tables" / "table4.md").read_text()
    assert "k-means (IIC), TELL-TwoStage (IIC)" in text
    assert "pass --features file.npz" in text
    np.savez(tmp_path / "wrong.npz", A=np.zeros(3))
    refused = tell("table4", "--out", tmp_path, "--features", tmp_path / "wrong.npz")
    assert refused.exit_code == 2
    assert "must hold arrays X and y, got ['A']" in " ".join(refused.stderr.split())


def test_wrong_words_are_refused_in_one_line() -> None:
    refused = tell("table9")
    assert refused.exit_code == 2
    assert "target must be one of table1" in refused.stderr


def test_snapshots_are_bounded_and_end_with_the_last_epoch(folder: Path) -> None:
    spec = load_spec("fig8")
    run = spec.cell(spec.rows[0], spec.columns[0], SMOKE)[0]
    found = read_snapshots(folder / f"{run.place}.snapshots.npz")
    assert list(found) == [0, 1, 2]
    assert found[2]["decoded"].shape == (10, 1, 8, 8)
    assert np.allclose(np.linalg.norm(found[2]["z"], axis=1), 1, atol=1e-5)
    assert list(at_shares(found, [0.0, 1.0])) == [0, 2]


def test_a_long_training_keeps_few_snapshots(tmp_path: Path) -> None:
    import torch

    from tell.experiments.inputs import learn_features
    from tell.experiments.recording import Recorder

    x = torch.rand(20, 1, 4, 4)
    file = tmp_path / "snapshots.npz"
    recorder = Recorder(x, np.arange(20) % 2, 2, snapshots=file)
    learn_features(x, "cnn", epochs=2 * MOST + 3, seed=0, recorder=recorder)
    kept = list(read_snapshots(file))
    assert len(kept) <= MOST
    assert kept[0] == 0
    assert kept[-1] == 2 * MOST + 3
    again = Recorder(x, np.arange(20) % 2, 2, snapshots=file)
    assert again.done == 2 * MOST + 3
