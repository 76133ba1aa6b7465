"""`import tell` is cheap, and its names are there when asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import tell

HEAVY = {"torch", "numpy", "scipy", "sklearn", "matplotlib", "plotly", "pyarrow", "pandas", "rich"}
LATE = {"matplotlib", "plotly", "pandas", "polars", "openTSNE", "captum", "PIL", "pooch", "river"}


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_the_package_itself_loads_nothing_heavy() -> None:
    loaded = json.loads(run("import json, sys, tell; print(json.dumps(list(sys.modules)))"))
    assert not HEAVY & set(loaded)


TIMED = """
import json, sys, time
start = time.process_time()
import torch, sklearn.base, sklearn.metrics, sklearn.utils.validation
theirs, middle = set(sys.modules), time.process_time()
import tell
tell.TELL, tell.ClusterLayer, tell.evaluate, tell.load
end = time.process_time()
print(json.dumps([middle - start, end - middle, list(set(sys.modules) - theirs)]))
"""


def test_every_name_costs_little_more_than_torch() -> None:
    """CPU time, so that other work on the machine does not count."""
    before, own, loaded = json.loads(run(TIMED))
    assert own < max(0.3, 0.2 * before)
    assert not LATE & {name.partition(".")[0] for name in loaded}


def test_importing_torch_does_not_need_the_estimators() -> None:
    loaded = run("import sys; from tell import ClusterLayer; print('sklearn' in sys.modules)")
    assert loaded.strip() == "False"


def test_public_names() -> None:
    for name in tell.__all__:
        assert getattr(tell, name).__name__ == name
        assert name in dir(tell)
    assert tell.DeepTELL.__name__ == "DeepTELL"
    with pytest.raises(AttributeError, match="no attribute 'KMeans'"):
        tell.KMeans  # type: ignore[attr-defined]  # noqa: B018
