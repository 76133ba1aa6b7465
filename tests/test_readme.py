"""The README shows what the results files say, and links to pages that exist."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_result_tables_are_those_of_the_results_files():
    check = [sys.executable, str(ROOT / "benchmarks" / "summary.py"), "--check"]
    assert subprocess.run(check).returncode == 0, "run python benchmarks/summary.py"


def test_links_lead_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
