"""The tables of `benchmarks/shallow.py` say what the curves say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import shallow_tables

    yield shallow_tables
    sys.modules.pop("shallow_tables")


def curve(*points: tuple[float, float], refused: str | None = None) -> dict[str, Any]:
    """Seconds and loss of each budget; the last is the default."""
    entries = [
        {"options": {"budget": at}, "default": at == len(points) - 1, "seconds": s, "loss": loss}
        for at, (s, loss) in enumerate(points)
    ]
    return {"curve": entries, "refused": refused, "gave_up": not points and refused is None}


def test_the_time_to_a_loss_is_the_shortest_of_any_budget(tables: Any) -> None:
    found = curve((0.1, 2.0), (0.5, 1.0), (0.4, 1.005))
    assert tables.least_time(found, 2.0) == 0.1
    assert tables.least_time(found, 1.01) == 0.4
    assert tables.least_time(found, 0.9) is None


def test_who_is_ahead_and_by_how_much(tables: Any) -> None:
    methods = {
        "TELL": curve((0.1, 1.05), (0.2, 1.0)),
        "oneDAL": curve((0.15, 1.09), (0.6, 1.0)),
        "slow": curve(),
        "picky": curve(refused="d is too small"),
    }
    found = {above: (loss, times) for above, loss, times in tables.targets(methods)}
    assert found[0.1][0] == pytest.approx(1.1)
    assert tables.ahead(found[0.1][1]) == pytest.approx(0.15 / 0.1)
    assert tables.ahead(found[0.001][1]) == pytest.approx(0.6 / 0.2)
    assert tables.ahead({"TELL": None, "oneDAL": 1.0}) == 0.0
    assert tables.ahead({"TELL": 1.0, "oneDAL": None}) is None
    assert tables.default_cell(methods["slow"], 20) == "over 20 s"
    assert tables.default_cell(methods["picky"], 20) == "refuses"
    assert tables.default_cell(methods["oneDAL"], 20) == "0.6 s, 1.0000"


def test_misses_are_shown_beside_the_goals(tables: Any) -> None:
    methods = {"TELL": curve((0.3, 1.0)), "oneDAL": curve((0.1, 1.05), (0.6, 1.0))}
    results = {
        case: {"methods": methods, "patience": 20, "predict_over_bare": 1.0}
        for case in ("1M x 10, k=10, sphere", "500k x 128, k=1000, sphere")
    }
    lines = "\n".join(tables.goals(results, lambda header, rows: [" | ".join(r) for r in rows]))
    assert "0 of 2; 6 of 8 lines; behind in 1M x 10, k=10, sphere (0.33×)" in lines
    assert "500k x 128, k=1000, sphere: a lower loss" in lines
    assert "2 of 2 points | 1 of 2" in lines
    assert "1M x 10, k=10, sphere: ahead of oneDAL at its loss | above 1× | 2.0×" in lines
