"""Draw docs/figures/architecture.svg: the layers, their imports, and the way of the data.

Run it from anywhere: `python docs/figures/architecture.py`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

INK, QUIET, PAPER = "#1f2933", "#7b8794", "#ffffff"
# What stands in each room; which rooms there are, and in which order, says pyproject.toml.
NOTES = {
    "cli": "one file per command: parse, call, print",
    "serving": "HTTP, metrics, the live page",
    "runtime": "a model at work",
    "compare": "peers side by side",
    "reproduce": "the paper as data",
    "estimators": "TELL, DeepTELL",
    "baselines": "fourteen peers",
    "explanations": "facts, then plots",
    "adapter": "foreign k-means under the same contract",
    "scale": "shards, workers",
    "export": "ONNX, SQL, a card",
    "choosing": "how many clusters",
    "contract": "what models can do",
    "metrics": "ACC, NMI, ARI, …",
    "persistence": "a model is a folder",
    "core": "the mathematics: torch only",
    "data": "where rows come from",
    "progress": "a bar",
    "exceptions": "by name",
    "files": "whole or not",
    "schema": "types",
}
FILLS = (
    "#e8eef7",
    "#eef3e2",
    "#e6f1ee",
    "#fdf3dd",
    "#fbe9e2",
    "#f7ecf0",
    "#fbe9e2",
    "#f0e9f6",
    "#eef0f2",
)
STEPS = [
    ("source", "array, file, stream"),
    ("preparation", "columns to numbers"),
    ("chunk", "finite, checked, precise"),
    ("batch", "seeded, shuffled"),
    ("encode", "to unit length"),
    ("layer", "scores, labels, loss"),
    ("objective", "L_rec + λ · L_clu"),
    ("step", "the one .backward()"),
    ("estimator", "centres, labels: numpy"),
    ("contract", "all that others know of it"),
    ("facts", "what is true of it"),
    ("report", "plots: how it is shown"),
]
PASSED = {2, 3, 4, 5, 6, 7}  # the steps inside the training loop


def layers() -> list[list[str]]:
    """The rooms from the outside in, as the linter of imports is told; siblings share a row."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    lines = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [[name.strip().removeprefix("tell.") for name in line.split("|")] for line in lines]


def box(ax: Axes, x: float, y: float, width: float, height: float, fill: str) -> None:
    """Draw one rounded box with its lower left corner at (x, y)."""
    style = "round,pad=0,rounding_size=0.08"
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=fill, ec=INK, lw=0.8))


def words(ax: Axes, x: float, y: float, name: str, note: str) -> None:
    """Write a name and, in quieter ink below it, what it is."""
    ax.text(x, y + 0.11, name, ha="center", va="center", size=10, color=INK, weight="bold")
    ax.text(x, y - 0.15, note, ha="center", va="center", size=7.8, color=QUIET)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], bend: float = 0) -> None:
    """Draw an arrow, straight or bent."""
    props = {"arrowstyle": "-|>", "color": INK, "lw": 1, "connectionstyle": f"arc3,rad={bend}"}
    ax.annotate("", xy=end, xytext=start, arrowprops=props)


def draw_layers(ax: Axes) -> None:
    """The packages as rows; what stands higher may import what stands lower."""
    width, gap, height = 6.2, 0.1, 0.56
    rows = layers()
    pitch = 5.83 / (len(rows) - 1)
    for row, (names, fill) in enumerate(zip(rows, FILLS, strict=True)):
        y = 8.56 - pitch * row
        each = (width - gap * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            x = 0.4 + column * (each + gap)
            box(ax, x, y, each, height, fill)
            words(ax, x + each / 2, y + height / 2, name, NOTES[name])
        if row:
            arrow(ax, (0.4 + width / 2, y + pitch), (0.4 + width / 2, y + height + 0.02))
    ax.text(0.4, 9.35, "Imports point downwards only", size=12, color=INK, weight="bold")


def draw_way(ax: Axes) -> None:
    """The way of the data, with the loop that training repeats."""
    x, width, height = 7.3, 4.2, 0.4
    pitch = 6.03 / (len(STEPS) - 1)
    for place, (name, note) in enumerate(STEPS):
        y = 8.72 - pitch * place
        box(ax, x, y, width, height, "#e6f1ee" if place in PASSED else PAPER)
        ax.text(x + 0.12, y + height / 2, name, va="center", size=10, color=INK, weight="bold")
        ax.text(x + 1.8, y + height / 2, note, va="center", size=7.8, color=QUIET)
        if place:
            arrow(ax, (x + width / 2, y + pitch + 0.01), (x + width / 2, y + height - 0.01))
    top, bottom = 8.72 - pitch * min(PASSED), 8.72 - pitch * max(PASSED)
    right = x + width
    arrow(ax, (right + 0.03, bottom + height / 2), (right + 0.03, top + height / 2), bend=0.35)
    ax.text(right + 0.82, (top + bottom + height) / 2, "fit: epochs\npartial_fit:\none pass",
            size=8.5, color=QUIET, va="center")  # fmt: skip
    ax.text(x, 9.35, "The way of the data", size=12, color=INK, weight="bold")


def main() -> None:
    """Write the figure next to this script."""
    plt.rcParams.update({"svg.hashsalt": "tell"})
    figure, ax = plt.subplots(figsize=(10.4, 6.2))
    ax.set(xlim=(0.2, 13.2), ylim=(2.5, 9.7))
    ax.axis("off")
    draw_layers(ax)
    draw_way(ax)
    target = Path(__file__).with_suffix(".svg")
    figure.savefig(target, bbox_inches="tight", metadata={"Date": None}, facecolor=PAPER)


if __name__ == "__main__":
    main()
