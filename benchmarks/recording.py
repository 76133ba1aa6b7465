"""Write down what was measured together with how: command, versions, machine, time."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "tell-clustering",
    "torch",
    "numpy",
    "scikit-learn",
    "pyarrow",
    "river",
    "faiss-cpu",
    "scikit-learn-intelex",
    "superkmeans",
)
LOAD_AT_START = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # of other work


def record(name: str, settings: dict[str, Any], results: Any, *, began: float) -> Path:
    """Save results as JSON; `began` is `time.perf_counter()` at the start of the run."""
    content = {
        "command": f"python benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip(),
        "settings": settings,
        "versions": {"python": platform.python_version()}
        | {package: _version(package) for package in PACKAGES},
        "machine": {
            "system": platform.system(),
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "load_at_start": LOAD_AT_START,
        },
        "seconds": round(time.perf_counter() - began, 1),
        "results": results,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return path


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
