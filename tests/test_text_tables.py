"""The tables of `benchmarks/text.py` say what its runs say, and noise counts both ways."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = ("recording", "shallow_tables", "text", "text_sets", "text_tables")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


def test_noise_is_a_cluster_of_its_own_and_then_none_at_all(benchmark: Any) -> None:
    topics = np.array(["a", "a", "a", "b", "b", "b", "c", "c"])
    labels = np.array([0, 0, -1, 1, 1, -1, -1, -1])
    found = benchmark("text").scored(topics, labels, 1.5)
    assert found["noise"] == 0.5
    assert found["clusters"] == 2
    assert found["acc"] == 6 / 8  # noise is matched with c
    assert found["acc_clustered"] == 1.0
    assert found["seconds"] == 1.5


def test_without_noise_there_is_one_score(benchmark: Any) -> None:
    found = benchmark("text").scored(np.array([0, 0, 1]), np.array([1, 1, 0]), 1.0)
    assert found["acc"] == 1.0
    assert "acc_clustered" not in found


def test_the_chosen_run_has_the_smallest_loss_not_the_best_score(benchmark: Any) -> None:
    shared = {"clusters": 2, "noise": 0.0, "nmi": 0.5, "ari": 0.4, "seconds": 2.0}
    accuracies, losses = (0.9, 0.6, 0.7), (0.3, 0.1, 0.2)
    pairs = zip(accuracies, losses, strict=True)
    runs = {str(i): shared | {"acc": acc, "loss": loss} for i, (acc, loss) in enumerate(pairs)}
    tables = benchmark("text_tables")
    cells = dict(zip(tables.HEADER[1:], tables.cells(runs), strict=True))
    assert cells["ACC"] == "70.0"
    assert cells["lowest to highest"] == "60.0 to 90.0"
    assert cells["chosen: ACC"] == "60.0"
    assert cells["noise"] == "none"
    assert cells["ACC without noise"] == ""


def test_sections_that_say_what_a_package_is_made_of_are_left_out(
    benchmark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sets = benchmark("text_sets")
    listed = [("games", f"game number {i}") for i in range(5)]
    listed += [("libs", f"library {i}") for i in range(9)]
    listed += [("mail", "reads mail"), ("mail", "reads mail"), ("mail", "mail - data files")]
    packages = [{"Section": section, "Description": text} for section, text in listed]
    script = sets._embed_packages()
    monkeypatch.setattr(script, "packages", lambda: iter(packages))
    monkeypatch.setattr(sets, "_embed_packages", lambda: script)
    found = sets.archive(tmp_path, lambda texts: np.ones((len(texts), 3)))
    assert sorted(set(found.topics)) == ["games", "mail"]
    assert found.texts.count("reads mail") == 1
    assert len(found.texts) == 6
    again = sets.archive(tmp_path, lambda texts: pytest.fail("they are kept"))
    assert again.fingerprint() == found.fingerprint()
