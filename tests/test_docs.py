"""What the documentation says is there: pages, links, names, and what its commands print."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [path for path in DOCS.rglob("*.md") if "tables" not in path.parts]
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]


def module(name: str) -> ModuleType:
    """Import one of the scripts of the documentation."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


console = module("console")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Return the names of a page's headings as links write them, and those set by hand."""
    headings = re.findall(r"^#+ (.*?)(?: *\{ *#([\w-]+) *\})?$", prose(page), re.M)
    kept = (re.sub(r"[^\w\s-]", "", text).strip().lower() for text, _ in headings)
    slugs = {re.sub(r"[\s-]+", "-", text) for text in kept}
    by_hand = re.findall(r'<a (?:id|name)="([^"]+)"', prose(page))
    return slugs | {name for _, name in headings if name} | set(by_hand)


@pytest.mark.parametrize("page", TEXTS, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)|\bsrc=\"([^\"]+)\"", prose(page))
    for link in (first or second for first, second in links):
        target, _, anchor = link.partition("#")
        if ":" in target:
            continue
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), f"{named(page)} links to {link}"
        if anchor:
            assert anchor in anchors(place), f"{named(page)} links to {link}"


def resolve(name: str) -> None:
    """Find a dotted name: the longest module, then attributes."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("page", TEXTS, ids=named)
def test_names_are_those_of_the_code(page: Path) -> None:
    """`tell.load` in a sentence and `::: tell.load` in the reference."""
    spoken = re.findall(r"`(tell(?:\.[A-Za-z_]\w*)+)", prose(page))
    for name in [*spoken, *re.findall(r"^::: (\S+)", prose(page), re.M)]:
        try:
            resolve(name)
        except (AttributeError, ModuleNotFoundError):
            pytest.fail(f"{named(page)} speaks of {name}, which is not there")


def test_the_reference_holds_every_public_name() -> None:
    """By itself or, as an exception, with the module that it lives in."""
    import tell

    shown = set(re.findall(r"^::: (\S+)", prose(DOCS / "reference" / "python.md"), re.M))
    names = [name for name in tell.__all__ if name != "__version__"]
    homes = {name: str(getattr(tell, name).__module__) for name in names}
    ours = {name for name, home in homes.items() if home.startswith("tell.") and home not in shown}
    assert {f"tell.{name}" for name in ours} <= shown


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    assert listed == {page.relative_to(DOCS).as_posix() for page in PAGES}


@pytest.mark.timeout(900)  # a dozen commands, each of which loads torch
@pytest.mark.parametrize("page", console.pages(), ids=named)
def test_commands_print_what_the_page_shows(page: Path) -> None:
    old = page.read_text(encoding="utf-8")
    if console.LEARNED in old:
        pytest.skip("learned features differ between processors")
    new = console.refresh(old)
    assert not console.differs(old, new), f"run python docs/console.py {named(page)}"


def test_the_site_builds_without_a_warning_and_asks_the_internet_for_nothing(
    tmp_path: Path,
) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install '.[docs]'")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img|iframe)\b[^>]*"(?:https?:)?//[^"]*"', text), (
            page
        )
        assert 'class="arithmatex"' not in text, page
    assert "<math" in (tmp_path / "method.html").read_text(encoding="utf-8")
