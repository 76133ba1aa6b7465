"""What people download: built as a source archive, from that as a wheel, and installed afresh."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import tell

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"


def run(*command: str | Path, cwd: Path) -> str:
    """Run a program that sees nothing of the source tree."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left behind in the source tree."""
    copy = tmp_path_factory.mktemp("tree")
    rubbish = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", copy / "src", ignore=rubbish)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run(sys.executable, "-c", BUILD, "build_sdist", "dist", cwd=copy)
    (archive,) = (copy / "dist").glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked = tmp_path_factory.mktemp("sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (tree,) = unpacked.iterdir()
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", "dist"]
    run(*pip, ".", cwd=tree)
    (built,) = (tree / "dist").glob("*.whl")
    return built


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    """Templates, specs and the marker of types as well as modules."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("tell/")}
    files = (path for path in (ROOT / "src" / "tell").rglob("*") if path.is_file())
    ours = {path.relative_to(ROOT / "src").as_posix() for path in files if path.suffix != ".pyc"}
    assert packed == ours
    assert "tell/py.typed" in packed
    assert {".j2", ".toml", ".css"} <= {Path(name).suffix for name in packed}


def test_the_wheel_works_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", "fresh", cwd=tmp_path)
    python = tmp_path / "fresh" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    run(*pip, wheel, cwd=tmp_path)
    # Dependencies come from here; the line in a .pth file adds them behind the fresh packages.
    here = run(sys.executable, "-c", "import torch; print(torch.__path__[0])", cwd=tmp_path)
    (packages,) = (tmp_path / "fresh" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(str(Path(here.strip()).parent))
    home = run(python, "-c", "import tell; print(tell.__file__)", cwd=tmp_path).strip()
    assert Path(home).is_relative_to(packages)
    program = python.with_name("tell")
    assert run(program, "--version", cwd=tmp_path) == f"tell {tell.__version__}\n"
    run(program, "fit", "digits", "-k", "10", "--quiet", cwd=tmp_path)
    options = ["--map", "pca", "--sample", "200", "--quiet", "--out", "report.html"]
    run(program, "explain", "model", "digits", *options, cwd=tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_version_is_written_once_and_told_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert "version" in project["dynamic"]
    released = re.findall(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", _read("CHANGELOG.md"), re.M)
    assert released[0] == tell.__version__
    assert f"\nversion: {tell.__version__}\n" in _read("CITATION.cff")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
