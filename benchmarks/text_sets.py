"""Texts with a topic that others gave them, and their embeddings, for benchmarks/text.py.

Both sets are what packages of Debian say they are, in one line, and the section of the archive that
their maintainers chose: the 1,200 of the tutorial, which are in the repository, and up to 10,000
from the sixteen largest sections that are subjects. The latter are made anew on a Debian machine
with package lists (`apt-get update`), and kept in a folder.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np

TUTORIALS = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
MOST_ROWS = 10_000
N_SECTIONS = 16
# Kinds of packages, languages that they are written in, desktops and what is left over: what a
# package is made of, while the other sections say what it is for.
NO_SUBJECT = {
    *("libs", "libdevel", "doc", "debug", "devel", "introspection", "oldlibs", "metapackages"),
    *("tasks", "localization", "utils", "misc", "otherosfs", "embedded", "interpreters"),
    *("python", "perl", "haskell", "rust", "golang", "javascript", "java", "ruby", "gnu-r"),
    *("php", "ocaml", "lisp", "cli-mono", "tex", "zope", "gnome", "kde", "xfce", "gnustep"),
}

Embed = Callable[[list[str]], np.ndarray]


class Texts(NamedTuple):
    """Texts, an embedding (n, d) of each in float32, and the topic that others gave them."""

    texts: list[str]
    X: np.ndarray
    topics: np.ndarray

    def fingerprint(self) -> str:
        """Tell whether two machines have the same texts in the same order: an archive changes."""
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()[:16]


def tutorial(folder: Path, embed: Embed) -> Texts:
    """The 1,200 summaries of the tutorial, 150 from each of eight sections."""
    with (TUTORIALS / "data" / "packages.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    X = np.load(TUTORIALS / "data" / "packages-minilm.npy").astype(np.float32)
    topics = np.array([line["section"] for line in lines])
    return Texts([line["summary"] for line in lines], X, topics)


def archive(folder: Path, embed: Embed) -> Texts:
    """At most 10,000 summaries of the sixteen largest sections that are subjects, as they come."""
    kept = folder / "archive.npz"
    if not kept.exists():
        texts, topics = _from_apt()
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(kept, texts=np.array(texts), topics=np.array(topics), X=embed(texts))
    with np.load(kept) as found:
        return Texts(found["texts"].tolist(), found["X"].astype(np.float32), found["topics"])


def _from_apt() -> tuple[list[str], list[str]]:
    """Read summaries, each once, and sections from the package lists of this machine."""
    tutorial = _embed_packages()
    found: dict[str, str] = {}
    for package in tutorial.packages():
        summary, section = package.get("Description", ""), package.get("Section", "")
        repeats = any(mark in summary for mark in tutorial.REPEATS)
        if section and section not in NO_SUBJECT and not repeats:
            found.setdefault(summary, section)
    largest = {name for name, _ in Counter(found.values()).most_common(N_SECTIONS)}
    rows = sorted((text, section) for text, section in found.items() if section in largest)
    rows = sorted(random.Random(0).sample(rows, min(MOST_ROWS, len(rows))))
    return [text for text, _ in rows], [section for _, section in rows]


def _embed_packages() -> ModuleType:
    """Import the script of the tutorial, which can read package lists."""
    place = TUTORIALS / "embed_packages.py"
    spec = importlib.util.spec_from_file_location("embed_packages", place)
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} must be a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SETS: dict[str, Callable[[Path, Embed], Texts]] = {
    "1,200 summaries, 8 sections": tutorial,
    "Debian's summaries, 16 sections": archive,
}
