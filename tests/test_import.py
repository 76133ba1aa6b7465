"""`import tell` is cheap, and its names are there when asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tell

HEAVY = {"torch", "numpy", "scipy", "sklearn", "matplotlib", "plotly", "pyarrow", "pandas", "rich"}
LATE = {
    "matplotlib",
    "plotly",
    "pandas",
    "polars",
    "openTSNE",
    "captum",
    "PIL",
    "pooch",
    "river",
    "ray",
}


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


CONTENTS = """
    ClusterLayer ClusterModel ClusterOutput CompilerWarning ConvergenceWarning DataUnavailableError
    DeepTELL DistilRecipe DivergedError DriftWarning GrowthWarning InputError
    MissingDependencyError ModelChangedError ModelFileError NotFittedError PaperRecipe
    ParameterError Recipe TELL TablePreparation TellError TellRecipe TellWarning
    UntrustedModelError Views WorkerError __version__ choose evaluate explain explain_change load
    network_builder open_source report
"""


def test_the_package_is_a_table_of_contents() -> None:
    assert dir(tell) == sorted(tell.__all__) == sorted(CONTENTS.split())
    for name in set(tell.__all__) - {"__version__"}:
        assert getattr(tell, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'KMeans'"):
        tell.KMeans  # type: ignore[attr-defined]  # noqa: B018


def test_explain_and_report_stay_functions_after_their_modules_load() -> None:
    code = (
        "import tell, tell.explanations.facts, tell.explanations.html_report, tell.cli.explain; "
        "print(callable(tell.explain), callable(tell.report), callable(tell.explanations.report))"
    )
    assert run(code).strip() == "True True True"


def test_every_error_and_warning_is_a_public_name() -> None:
    from tell import exceptions

    own = {n for n, kind in vars(exceptions).items() if getattr(kind, "__mro__", None)}
    assert own <= set(tell.__all__)


def test_no_recipe_is_loaded_before_it_is_asked_for() -> None:
    code = (
        "import sys, tell; tell.explain, tell.report; print('tell.estimators.deep' in sys.modules)"
    )
    assert run(code).strip() == "False"


def test_a_file_name_says_which_file_is_meant() -> None:
    names = [path.name for path in Path(tell.__file__).parent.rglob("*.py")]
    twice = {name for name in names if names.count(name) > 1 and name != "__init__.py"}
    assert twice == set()
