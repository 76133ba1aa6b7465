"""docs/method.md names lines of code: they must be there."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "method.md").read_text()
LINES = [
    [cell.strip().strip("`") for cell in line.strip("|").split("|")]
    for line in PAGE.split("## Where each equation lives")[1].splitlines()
    if "`src/" in line
]


@pytest.mark.parametrize("cells", LINES, ids=lambda cells: f"{cells[0]}: {cells[1]}")
def test_the_line_that_an_equation_became_exists(cells: list[str]) -> None:
    _, _, code, file = cells
    assert code in (ROOT / file).read_text()


def test_the_page_shows_figures_that_exist() -> None:
    for name in ("method-layer", "method-normalisation", "method-parts"):
        assert f"figures/{name}.svg" in PAGE
        assert (ROOT / "docs" / "figures" / f"{name}.svg").exists()
