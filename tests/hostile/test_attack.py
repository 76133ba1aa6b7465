"""A few thousand damaged files of every format: read, or refused by an error of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = 2_700  # 150 of each format


def test_every_damaged_file_is_read_or_refused(tmp_path: Path) -> None:
    out = tmp_path / "summary.json"
    command = [sys.executable, "-m", "tests.hostile.attack", "--seed", "1", "--cases", str(CASES)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [*command, "--out", str(out)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert out.exists(), result.stderr
    summary = json.loads(out.read_text())
    assert summary["failures"] == {}, summary["examples"][:3]
    assert summary["cases"] == CASES
    for name, found in summary["formats"].items():
        assert found.get("refused"), name  # the damage is damage
