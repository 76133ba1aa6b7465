"""Rules from the shell: printed, as SQL, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tell.estimators import load

from .conftest import Run, iris_csv

Tell = Callable[..., Run]


def test_rules_and_their_sql(tell: Tell, flower_model: Path, tmp_path: Path) -> None:
    data = iris_csv(tmp_path / "iris.csv")
    rules = load(flower_model).to_rules(data, n_leaves=5)
    words = ("export", "model", "--rules", "iris.csv")
    assert tell(*words, "--leaves", 5).worked() == f"{rules}\n"
    assert tell(*words, "--leaves", 5, "--sql", "--table", "t").worked() == rules.to_sql("t")
    both = json.loads(tell(*words, "--sql", "--json").worked())
    assert set(both) == {"price", "rules", "sql"}
    assert both["price"]["n_leaves"] == 6


def test_what_cannot_be_asked_for(tell: Tell, flower_model: Path, tmp_path: Path) -> None:
    iris_csv(tmp_path / "iris.csv")
    assert "--leaves needs --rules DATA" in tell("export", "model", "--leaves", 5).failed()
    words = ("export", "model", "--rules", "iris.csv", "--leaves", 2)
    assert "n_leaves must be at least 3" in tell(*words).failed()
    assert "--rules DATA" in tell("export", "model").failed()
