"""`tell show` and `tell demo`: what people see first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tell import load
from tell.cli.demo import check_folder, print_found
from tell.cli.portrait import values_table

from .conftest import Run

Tell = Callable[..., Run]


def test_a_model_is_shown_with_centres_in_the_units_of_the_data(
    tell: Tell, flower_model: Path
) -> None:
    text = tell("show", flower_model).worked()
    for part in ("TELL, 3 clusters, 4 columns", "euclidean", "150", "species", "iris.csv", "ACC"):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80
    shown = json.loads(tell("show", flower_model, "--json").worked())
    centers = np.asarray(shown["centers"])
    assert np.allclose(centers, load(flower_model).centers_in_units())
    # Iris flowers have petals of 1 to 7 cm; standardised values would lie around 0.
    assert ((centers[:, 2] > 1) & (centers[:, 2] < 7)).all()
    assert shown["settings"]["standardize"] is True


def test_many_columns_are_told_by_those_that_stand_out() -> None:
    centers = np.zeros((3, 30))
    centers[1, 7] = 5.0
    grid = values_table([f"x{place}" for place in range(30)], centers, "centre of", "a note")
    assert grid is not None
    second = str(list(grid.columns[1].cells)[1])
    assert second.startswith("x7 5 (1.67)")
    assert values_table(None, centers, "centre of", "a note") is None


def test_demo_compares_with_kmeans_and_may_run_again(
    tell: Tell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = json.loads(tell("demo", "--json").worked())
    check_folder(tmp_path / "demo")
    print_found(result)
    text = capsys.readouterr().out
    assert "KMeans, pixels" in text
    assert "DeepTELL, end to end" in text
    assert "demo/report.html" in text
    assert max(map(len, text.splitlines())) <= 80
    assert (tmp_path / "demo" / "report.html").read_text().startswith("<!")
    assert result["metrics"]["acc"] > 0.85 > result["pixels"]["metrics"]["acc"] > 0.7
    assert set(result["metrics"]) == set(result["kmeans"]["metrics"])
    assert load(tmp_path / "demo" / "model").n_features_in_ == 64
