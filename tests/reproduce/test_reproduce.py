"""The whole paper at the smoke scale, its interruption, and what the command says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from typer.testing import CliRunner, Result

from tell.cli.main import app
from tell.core.autoencoder import convolutional
from tell.core.batches import Batches
from tell.core.loop import Loop
from tell.core.objective import Reconstruction
from tell.reproduce import run as running
from tell.reproduce.figures import at_shares
from tell.reproduce.recording import MOST, Recorder, read_snapshots
from tell.reproduce.results import Result as Outcome
from tell.reproduce.results import read_arrays, read_result
from tell.reproduce.spec import TARGETS, load_scale, load_spec, load_targets
from tell.reproduce.workspace import convolutional_features

SMOKE = load_scale("smoke")


def tell(*words: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, words)], catch_exceptions=False)


@pytest.mark.timeout(900)
def test_the_whole_paper_from_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, because the run behind all its parts is the dear one."""
    X, y = load_digits(return_X_y=True)
    given = tmp_path / "given.npz"
    np.savez(given, X=X[:140, ::4], y=y[:140])
    done = tell("--out", tmp_path, "--page", tmp_path / "page.md", "--features", given)
    assert done.exit_code == 0, done.output
    check_every_table_and_figure_is_there(tmp_path)
    check_every_result_says_how_it_was_made(tmp_path)
    check_the_page_shows_everything(tmp_path)
    check_snapshots_end_with_the_last_epoch(tmp_path)
    check_figures_can_be_drawn_without_the_runs_own_files(tmp_path)
    monkeypatch.setattr(running, "execute", None)  # whatever runs again now fails
    assert tell("table5", "s1", "--out", tmp_path, "--quiet").exit_code == 0


def check_every_table_and_figure_is_there(folder: Path) -> None:
    shown = tell("--status", "--json", "--out", folder)
    status = json.loads(shown.stdout)
    assert list(status) == list(TARGETS)
    for name, counts in status.items():
        assert counts["done"] == counts["total"], (name, counts)
    tables = {file.name for file in (folder / "smoke" / "tables").iterdir()}
    assert {"table1.md", "table3.tex", "s2.md"} <= tables
    figures = {file.stem for file in (folder / "smoke" / "figures").glob("*.png")}
    assert figures == {"fig5", "fig6", "fig7", "fig8", "theory", "toy"}


def check_every_result_says_how_it_was_made(folder: Path) -> None:
    for run in running.plan(load_targets(["all"], SMOKE), SMOKE):
        result = read_result(folder, run)
        assert result is not None, run.place
        assert set(result.scores) >= {"acc", "nmi", "ari", "v_measure"}
        assert result.facts["versions"]["torch"]
        assert result.facts["machine"]["cores"] >= 1
        assert result.facts["command"].startswith("tell")
        if run.method.estimator == "vade":  # chosen by its bound, which is none of S1's numbers
            assert result.loss == pytest.approx(result.history[-1]["total"])
            assert result.table_loss is None
        if run.method.estimator == "deep-tell":
            assert result.runs[0]["chosen"]
            assert {"acc", "nmi", "ari", "seconds"} <= set(result.history[-1])
            assert result.table_loss == pytest.approx(0.01 * (2 - (2 - (result.loss or 0)) / 10),
                                                      abs=2e-3)  # fmt: skip


def check_the_page_shows_everything(folder: Path) -> None:
    text = (folder / "page.md").read_text()
    for name in TARGETS:
        assert f'<a id="{name}"></a>' in text
    links = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(links) == 6
    assert all((folder / link).exists() for link in links)
    assert "not run" not in text.split("## Table 1")[1]
    assert "hence concave" in text


def check_figures_can_be_drawn_without_the_runs_own_files(folder: Path) -> None:
    figures = folder / "smoke" / "figures"
    for file in (*folder.rglob("*.snapshots.npz"), *figures.glob("*.png")):
        file.unlink()
    assert tell("--render", "--out", folder, "--quiet").exit_code == 0
    assert len(list(figures.glob("*.png"))) == 6


def check_snapshots_end_with_the_last_epoch(folder: Path) -> None:
    spec = load_spec("fig8")
    run = spec.cell(spec.rows[0], spec.columns[0], SMOKE)[0]
    found = read_snapshots(folder / f"{run.place}.snapshots.npz")
    result = read_result(folder, run)
    assert result is not None
    last = len(result.history)  # epochs of all stages
    assert list(at_shares(found, [0.0, 1.0])) == [0, last]
    evaluations = [e for line in result.history for e in line["evaluations"]]
    assert [e["epoch"] for e in evaluations] == list(found)[1:]  # nothing is scored untrained
    within = [e for e in evaluations if e["epoch"] % 1]
    assert within, "a short training is evaluated within its epochs"
    assert {"acc", "nmi", "ari", "clustering"} <= set(evaluations[-1])
    assert found[last]["decoded"].shape == (10, 1, 8, 8)
    assert np.allclose(np.linalg.norm(found[last]["z"], axis=1), 1, atol=1e-5)


def test_an_interrupted_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def once(run: running.Run, workspace: object) -> Outcome:
        ran.append(run.place)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return Outcome("failed", reason="only pretending")

    monkeypatch.setattr(running, "execute", once)
    assert tell("table6", "--out", tmp_path).exit_code == 1
    again = tell("table6", "--out", tmp_path)
    assert (again.exit_code, "4 of the runs failed" in again.stderr) == (1, True)
    assert len(ran) == 5  # four runs, the interrupted one twice
    assert ran[1] == ran[2]
    assert tell("table6", "--out", tmp_path, "--retry", "--only", "/adam/").exit_code == 1
    assert len(ran) == 6  # a failure is a result, until it is told to try again
    assert len(list(tmp_path.rglob("*.part"))) == 0


def test_all_columns_of_table_4_are_filled_from_one_training_of_iic(tmp_path: Path) -> None:
    assert tell("table4", "--out", tmp_path, "--quiet").exit_code == 0
    text = (tmp_path / "smoke" / "tables" / "table4.md").read_text()
    assert "k-means†" in text
    assert "not run" not in text
    (features,) = (tmp_path / "smoke" / "features").iterdir()
    assert "iic" in features.name
    assert np.load(features)["X"].shape == (120, 300)
    (tmp_path / "smoke" / "mnist.jsonl").unlink()
    made = features.stat().st_mtime_ns
    assert tell("table4", "--out", tmp_path, "--quiet", "--only", "iic").exit_code == 0
    assert features.stat().st_mtime_ns == made  # trained once


def test_results_and_page_say_what_was_trained_in_bfloat16(tmp_path: Path) -> None:
    words = ["table4", "table5", "table6", "--out", tmp_path, "--precision", "bfloat16"]
    named = ("adam", "kmeans-cnn", "kmeans-iic", "kmeans-raw")
    words += [f"--only=mnist/{name}/" for name in named]
    done = tell(*words, "--page", tmp_path / "page.md")
    assert done.exit_code == 0, done.output
    lines = map(json.loads, (tmp_path / "smoke" / "mnist.jsonl").read_text().splitlines())
    found = {line["run"]["method"]["name"]: line["facts"]["precision"] for line in lines}
    assert found.pop("kmeans-raw") == "float32"
    assert found == dict.fromkeys(["adam", "kmeans-cnn", "kmeans-iic"], "bfloat16")
    features = [file.stem for file in (tmp_path / "smoke" / "features").glob("*-seed-*.npz")]
    # A run in float32 trains its own.
    assert sum(name.endswith("-bfloat16") for name in features) == 2, features
    assert re.search(r"^3 runs on .* trained with products in bfloat16\.$",
                     (tmp_path / "page.md").read_text(), re.MULTILINE)  # fmt: skip


def test_a_file_of_features_that_is_none_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", A=np.zeros(3))
    refused = tell("table4", "--out", tmp_path, "--features", tmp_path / "wrong.npz")
    assert refused.exit_code == 2
    assert "must hold arrays X and y, got ['A']" in " ".join(refused.stderr.split())


def test_features_of_another_file_are_clustered_anew(tmp_path: Path) -> None:
    X, y = load_digits(return_X_y=True)
    words = ("table4", "--out", tmp_path, "--quiet", "--only", "mnist/kmeans-iic/", "--features")
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for file, columns in zip(files, (X[:140, ::4], X[:140, 30:34]), strict=True):
        np.savez(file, X=columns, y=y[:140])
    spec = load_spec("table4")
    run = running.plan([spec], SMOKE, ["mnist/kmeans-iic/"])[0]
    found = []
    for file in (files[0], files[1], files[1]):
        assert tell(*words, file).exit_code == 0
        result = read_result(tmp_path, run)
        assert result is not None
        found.append((result.scores["acc"], result.facts["started"], result.facts["features"]))
    assert found[0][2] != found[1][2]
    assert found[0][0] != found[1][0]
    assert found[1] == found[2]
    missing = tell(*words, tmp_path / "nothing.npz")
    assert missing.exit_code == 2
    assert "must name an .npz file" in " ".join(missing.stderr.split())


def test_damaged_files_are_made_again(tmp_path: Path) -> None:
    words = ("table5", "--out", tmp_path, "--quiet", "--only", "mnist/kmeans-cnn/")
    assert tell(*words).exit_code == 0
    (features,) = (tmp_path / "smoke" / "features").glob("*cnn*-0.npz")
    features.write_bytes(features.read_bytes()[:100])
    (tmp_path / "smoke" / "mnist.jsonl").unlink()
    assert tell(*words).exit_code == 0
    assert read_arrays(features)["X"].shape == (120, 10)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["table9"], "target must be one of table1"),
        (["all", "table9"], "target must be one of table1"),
        (["table5", "--only", "mnist/nothing"], "--only must match a run"),
    ],
)
def test_wrong_words_are_refused_in_one_line(words: list[str], answer: str, tmp_path: Path) -> None:
    refused = tell(*words, "--out", tmp_path)
    assert refused.exit_code == 2
    assert answer in " ".join(refused.stderr.split())
    assert not list(tmp_path.iterdir())


def test_a_long_training_keeps_few_snapshots(tmp_path: Path) -> None:
    x = torch.rand(20, 1, 4, 4)
    file = tmp_path / "snapshots.npz"
    recorder = Recorder(x, np.arange(20) % 2, 2, snapshots=file)
    convolutional_features(x, epochs=MOST + 3, seed=0, recorder=recorder)
    assert list(read_snapshots(file)) == [*range(0, MOST + 3, 5), MOST + 3]


def test_evaluations_count_on_from_earlier_stages(tmp_path: Path) -> None:
    """Also in a new process, which has not seen those stages."""
    x = torch.rand(40, 1, 4, 4)
    objective = Reconstruction(*convolutional((1, 4, 4)))
    recorder = Recorder(x, np.arange(40) % 2, 2, snapshots=tmp_path / "snapshots.npz")
    optimizer = torch.optim.Adam(objective.parameters())
    batches = Batches(x, batch_size=8)  # five steps
    loop = Loop(objective, batches, optimizer, epochs=1, epochs_before=3, hooks=[recorder])
    found = loop.run()[0]["evaluations"]
    assert [e["epoch"] for e in found] == [3.2, 3.4, 3.6, 3.8, 4.0]
    assert found[0]["reconstruction"] > 0


def test_a_resumed_training_forgets_snapshots_it_has_yet_to_reach(tmp_path: Path) -> None:
    x, y, file = torch.rand(20, 1, 4, 4), np.arange(20) % 2, tmp_path / "snapshots.npz"
    convolutional_features(x, 5, 0, Recorder(x, y, 2, snapshots=file))
    again = Recorder(x, y, 2, snapshots=file)
    convolutional_features(x, 2, 0, again)  # as if the checkpoint were older than the file
    assert list(read_snapshots(file)) == [0, 1, 2]  # one step per epoch: nothing in between
