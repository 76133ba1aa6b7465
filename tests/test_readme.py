"""The README is short and shows what the results files say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_result_tables_are_those_of_the_results_files():
    check = [sys.executable, str(ROOT / "benchmarks" / "summary.py"), "--check"]
    assert subprocess.run(check).returncode == 0, "run python benchmarks/summary.py"


def test_it_stays_a_front_door():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 150
    for command in (
        "make demo",
        "make test",
        "tell demo",
        'pip install -c constraints.txt ".[all]"',
    ):
        assert command in text
    table = text.split("<!-- results -->")[1].split("<!-- /results -->")[0].strip().splitlines()
    assert len(table) == 2 + 5


def test_its_picture_is_small():
    assert (ROOT / "docs" / "figures" / "report-digits.png").stat().st_size < 300_000
