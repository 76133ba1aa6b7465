"""Run the commands that a page shows and write down what they print.

python docs/console.py                    # rewrite all pages that show commands
python docs/console.py README.md          # this one only
python docs/console.py --check            # exit code 1 if a page is out of date

A block marked `console` holds commands (`$ tell …`), each followed by its output. The commands of a
page run one after another in one empty folder that holds copies of the tutorials' data.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "tutorials" / "data"
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.M | re.S)
COMMAND = re.compile(r"^\$ (.*(?:(?<=\\)\n.*)*)", re.M)
# How long something took is another number each time, and so is the last bit of a sum.
VARYING = re.compile(r"\d+\.\d s\b|off by \S+\)")
# Learned features differ between processors: the commands of such a page are run, and what they
# print is shown, but not compared.
LEARNED = "<!-- console: learned features, not compared -->"


def pages() -> list[Path]:
    """Return the pages that show commands with their output."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if BLOCK.search(page.read_text(encoding="utf-8"))]


def refresh(text: str) -> str:
    """Return the page with the output that its commands print now."""
    with tempfile.TemporaryDirectory() as folder:
        for file in DATA.iterdir():
            shutil.copy(file, folder)
        return BLOCK.sub(lambda block: _run_block(block[0], folder), text)


def differs(old: str, new: str) -> bool:
    """Compare two versions of a page apart from what varies by nature."""
    return VARYING.sub("…", old) != VARYING.sub("…", new)


def _run_block(block: str, folder: str) -> str:
    shown = []
    for command in COMMAND.findall(block):
        shown.append(f"$ {command}\n{_run(command, folder)}")
    return "\n".join(shown)


def _run(command: str, folder: str) -> str:
    """Run one command as a person would, in a terminal of 88 columns without colours."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    plain = {"PATH": path, "COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **plain},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
    if done.returncode:
        raise RuntimeError("\n".join([f"$ {command}", *lines]))
    return "".join(f"{line}\n" for line in lines)


def main() -> int:
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    stale = 0
    for page in [Path(name).resolve() for name in arguments] or pages():
        old = page.read_text(encoding="utf-8")
        new = refresh(old)
        if differs(old, new):
            stale = 1
            print(f"{page.relative_to(ROOT)} shows another output than its commands print now")
            if "--check" not in sys.argv:
                page.write_text(new, encoding="utf-8")
    return stale if "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
