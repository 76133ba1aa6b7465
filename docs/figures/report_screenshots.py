"""Photograph real reports: the pictures of README and tutorials, kept current by running this.

python docs/figures/report_screenshots.py               # all of them
python docs/figures/report_screenshots.py digits        # one

Needs the extra `test` (playwright) and a chromium; each report is made by the commands a reader
would type.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FIGURES = Path(__file__).parent
DATA = FIGURES.parent / "tutorials" / "data"
WIDTH, MARGIN = 1100, 8
LIMIT = 300_000  # bytes: a front door must open quickly


@dataclass(frozen=True)
class Report:
    """How a report is made, and its pictures: each from one element of the page to another."""

    data: str
    fit: str
    label: str
    pictures: dict[str, tuple[str, str]]


REPORTS = {
    "digits": Report(
        "digits",
        "-k 10 --deep",
        "",
        {
            "report-digits": ("header.top", "#map"),
            "report-digits-cards": ("#clusters", "#clusters article:nth-of-type(3)"),
            "report-digits-directions": (
                "#points article:nth-of-type(2) .directions",
                "#points article:nth-of-type(2) .directions > li:nth-of-type(3)",
            ),
            "report-digits-layer": (".way", "table.walk"),
        },
    ),
    "customers": Report(
        "customers.csv",
        "-k 5",
        "status",
        {
            "report-customers": (
                "#clusters article:nth-of-type(3)",
                "#clusters article:nth-of-type(4)",
            )
        },
    ),
    "text": Report(
        "texts.parquet",
        "-k 8 --n-init 10 --no-prepare",
        "section",
        {"report-text": ("#map", "#map")},
    ),
}


def write_texts(folder: Path) -> None:
    """Put the embeddings of the text tutorial beside their sections in one table."""
    import numpy as np
    import pandas as pd

    table = pd.DataFrame(np.load(DATA / "packages-minilm.npy").astype("float32"))
    table.columns = [f"d{number}" for number in range(table.shape[1])]
    table["section"] = pd.read_csv(DATA / "packages.csv").section
    table.to_parquet(folder / "texts.parquet")


def write_report(report: Report, folder: Path) -> Path:
    """Fit and explain as a reader would."""
    label = ["--label", report.label] if report.label else []
    tell = str(Path(sys.executable).with_name("tell"))
    fit = [tell, "fit", report.data, *report.fit.split(), *label, "--out", "model", "--quiet"]
    explain = [tell, "explain", "model", report.data, *label, "--out", "report.html", "--quiet"]
    for command in (fit, explain):
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "report.html"


def photograph(file: Path, pictures: dict[str, tuple[str, str]]) -> None:
    """Take the parts of the page that are asked for, in light colours."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        size = {"width": WIDTH, "height": 900}
        page = browser.new_page(viewport=size, color_scheme="light")
        page.goto(file.as_uri())
        page.wait_for_selector("[data-ready=true]")
        for name, ends in pictures.items():
            top, end = (page.locator(one).first.bounding_box() for one in ends)
            height = end["y"] + end["height"] + MARGIN - top["y"]
            clip = {"x": 0, "y": top["y"], "width": WIDTH, "height": height}
            page.screenshot(path=FIGURES / f"{name}.png", clip=clip, full_page=True)
        browser.close()


def shrink(picture: Path) -> None:
    """Pack a picture as small as it gets without loss, and say if that is too much."""
    from PIL import Image

    with Image.open(picture) as image:
        image.convert("RGB").save(picture, optimize=True)
    size = picture.stat().st_size
    if size > LIMIT:
        raise SystemExit(
            f"{picture.name} has {size:,} bytes, over {LIMIT:,}; show less of the page"
        )
    print(f"{picture.name}: {size:,} bytes")


def main() -> None:
    for report in [REPORTS[name] for name in sys.argv[1:] or REPORTS]:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            shutil.copy(DATA / "customers.csv", folder)
            write_texts(folder)
            photograph(write_report(report, folder), report.pictures)
        for name in report.pictures:
            shrink(FIGURES / f"{name}.png")


if __name__ == "__main__":
    main()
