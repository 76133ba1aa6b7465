"""Draw docs/figures/method-layer.svg, method-normalisation.svg and method-parts.svg.

With the real layer.

Run it from anywhere: `python docs/figures/method.py`.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import torch

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from sklearn.datasets import load_digits

from tell import TELL, ClusterLayer, explain
from tell.explanations.layer_walk import walk
from tell.explanations.palette import cluster_colors

HERE = Path(__file__).parent
K = 3
COLORS = cluster_colors(K)
QUIET = "#7b8794"
STEPS = 40
#: The digit of method-parts.svg: a 5 between a 9 and a 3.
ROW = 5


def rows(n: int = 60, noise: float = 0.33) -> torch.Tensor:
    """Three groups in the plane that also differ in direction."""
    generator = torch.Generator().manual_seed(4)
    middles = torch.tensor([[1.6, 0.5], [0.2, 1.5], [-1.5, -0.4]])
    around = noise * torch.randn(K, n, 2, generator=generator)
    return (middles[:, None] + around).reshape(-1, 2)


def stars(ax: Axes, centers: np.ndarray) -> None:
    """Mark centres."""
    ax.scatter(*centers.T, marker="*", s=210, c=COLORS, edgecolors="black", linewidths=1, zorder=4)


def plane(ax: Axes, x: torch.Tensor) -> None:
    """k-means: the euclidean layer's regions are those of the nearest centre."""
    model = TELL(K, geometry="euclidean", random_state=0).fit(x.numpy())
    grid = torch.cartesian_prod(torch.linspace(-3, 3, 241), torch.linspace(-3, 3, 241))
    regions = model.predict(grid.numpy()).reshape(241, 241).T
    ax.contourf(
        np.linspace(-3, 3, 241), np.linspace(-3, 3, 241), regions, levels=[-0.5, 0.5, 1.5, 2.5],
        colors=COLORS, alpha=0.18,
    )  # fmt: skip
    ax.scatter(*x.numpy().T, s=9, c=[COLORS[j] for j in model.labels_], linewidths=0)
    stars(ax, model.cluster_centers_)
    ax.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xticks=[], yticks=[])
    ax.set_title("1  k-means: nearest centre", fontsize=10)


def circle(ax: Axes, x: torch.Tensor) -> ClusterLayer:
    """The paper's layer: rows and centres have unit length, the distance is a dot product."""
    model = TELL(K, random_state=0).fit(x.numpy())
    unit = torch.nn.functional.normalize(x, dim=1).numpy()
    ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=QUIET, lw=0.8))
    colors = [COLORS[j] for j in model.labels_]
    for start, end, color in zip(x.numpy() * 0.42, unit, colors, strict=True):
        ax.plot(*np.transpose([start, end]), color=color, lw=0.3, alpha=0.35)
    ax.scatter(*unit.T, s=9, c=colors, linewidths=0)
    stars(ax, model.cluster_centers_)
    for center, color in zip(model.cluster_centers_, COLORS, strict=True):
        arrow = {"arrowstyle": "-|>", "color": color, "lw": 1.6}
        ax.annotate("", xy=center, xytext=(0, 0), arrowprops=arrow)
    ax.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal", xticks=[], yticks=[])
    ax.set_title("2  TELL: directions on the sphere", fontsize=10)
    return model.layer_


@torch.no_grad()
def attention(ax: Axes, layer: ClusterLayer) -> None:
    """The assignment of eq. 7 for a point that walks once around the circle."""
    angle = torch.linspace(-180, 180, 721)
    walk = torch.stack([torch.cos(angle.deg2rad()), torch.sin(angle.deg2rad())], dim=1)
    scores = layer(walk.to(layer.weight.dtype)).scores
    soft = torch.softmax(scores / 0.3, dim=1)
    hard = torch.nn.functional.one_hot(scores.argmax(dim=1), K)
    for j, color in enumerate(COLORS):
        ax.plot(angle, soft[:, j], color=color, lw=1.8)
        ax.plot(angle, hard[:, j], color=color, lw=0.9, ls="--")
    ax.plot([], [], color=QUIET, lw=1.8, label="τ = 0.3")
    ax.plot([], [], color=QUIET, lw=0.9, ls="--", label="τ → 0")
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(0.0, 0.62))
    ax.set(xlabel="direction of the point (degrees)", ylabel="assignment $I_j(x)$")
    ax.set_xticks([-180, -90, 0, 90, 180])
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title("3  softmax of the scores", fontsize=10)


def descend(x: torch.Tensor, *, weight: bool, gradient: bool) -> np.ndarray:
    """Take SGD steps on the summed loss; return the centres before, between and after."""
    layer = ClusterLayer(2, K, normalize_weight=weight, normalize_gradient=gradient)
    layer.set_centers_(torch.tensor([[0.75, -0.75], [-0.5, 0.9], [-0.3, -1.0]]))
    sgd = torch.optim.SGD(layer.parameters(), lr=1.0)
    path = [layer.centers.detach().clone()]
    for step in range(STEPS):
        batch = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(step))[:12]]
        sgd.zero_grad()
        layer(batch).loss.sum().backward()
        sgd.step()
        path.append(layer.centers.detach().clone())
    return torch.stack(path).numpy()  # (steps + 1, k, 2)


def runaway(ax: Axes, x: torch.Tensor) -> None:
    """The paper's figure 2(a): nothing keeps the length."""
    lengths = np.linalg.norm(descend(x, weight=False, gradient=False), axis=2)
    for j, color in enumerate(COLORS):
        ax.plot(lengths[:, j], color=color, lw=1.6)
    ax.axhline(1, color=QUIET, lw=0.8, ls=":")
    ax.annotate("unit length", (STEPS, 1), ha="right", va="bottom", fontsize=8, color=QUIET)
    ax.set(xlabel="step", ylabel="length of the centres")
    ax.set_title("(a) neither: centres run away", fontsize=10)


def directions(ax: Axes, x: torch.Tensor, title: str, *, gradient: bool) -> None:
    """The paper's figure 2(b) or 2(c): on the sphere a centre is a direction."""
    path = descend(x, weight=True, gradient=gradient)
    around = np.degrees(np.arctan2(x[:, 1].numpy(), x[:, 0].numpy()))
    ax.hlines(_turned(around), STEPS + 1, STEPS + 4, color=QUIET, lw=0.4)
    for j, color in enumerate(COLORS):
        angles = np.degrees(np.unwrap(np.arctan2(path[:, j, 1], path[:, j, 0])))
        turns = _turned(angles[-1]) - angles[-1]
        ax.plot(angles + turns, "o-", color=color, ms=2.5, lw=1)
    ax.set(xlabel="step", ylabel="direction of the centres (degrees)", xlim=(-1, STEPS + 4))
    ax.set_ylim(-80, 275)
    ax.set_yticks([0, 90, 180, 270])
    ax.set_title(title, fontsize=10)


def _turned(degrees: np.ndarray) -> np.ndarray:
    """Give directions from -90 on, so that no group of rows is cut in two."""
    return (degrees + 90) % 360 - 90


def parts() -> plt.Figure:
    """Section 3.3 and figure 4 of the paper: one digit on its way through a fitted layer."""
    data = load_digits()
    X = data.data / 16
    model = TELL(10, random_state=0).fit(X)
    facts = explain(model, X, rows=[ROW], shape=(8, 8), map_method=None, quality=False)
    (point,) = facts.points
    found = walk(point, facts.clusters, on_sphere=True)
    colors = cluster_colors(10)
    titles = (
        "$W_j^\\top x + b_j$",
        "$2 - W_j^\\top x$",
        "attention",
        "$I_j$",
        "$I_j\\,(2 - W_j^\\top x)$",
    )
    figure, axes = plt.subplots(
        11, 7, figsize=(10.5, 6.4), width_ratios=[1.1, 0.5, 1.4, 1.4, 1.4, 0.8, 1.4],
        height_ratios=[0.9] + [1] * 10, layout="constrained",
    )  # fmt: skip
    for ax in axes.flat:
        ax.axis("off")
    heads = ("Input: $x$", "Weight", *titles)
    for ax, head in zip(axes[0], heads, strict=True):
        ax.text(0.5, 0.1, head, ha="center", fontsize=10)
    axes[0, 2].text(0.5, 0.95, "the layer", ha="center", fontsize=9, color=QUIET)
    axes[0, 3].text(0.5, 0.95, "dissimilarity", ha="center", fontsize=9, color=QUIET)
    axes[0, 4].text(
        0.5, 0.95, f"τ = {point.attention_temperature:.2f}", ha="center", fontsize=9, color=QUIET
    )
    axes[0, 5].text(0.5, 0.95, "activation", ha="center", fontsize=9, color=QUIET)
    axes[0, 6].text(0.5, 0.95, "loss", ha="center", fontsize=9, color=QUIET)
    place = figure.add_subplot(axes[0, 0].get_gridspec()[4:7, 0])
    place.imshow(X[ROW].reshape(8, 8), cmap="gray_r")
    place.axis("off")
    place.set_title(f"row {ROW}, β = {found.beta:.0f}", fontsize=9, color=QUIET)
    most = (
        max(abs(line.score) for line in found.lines),
        max(line.dissimilarity for line in found.lines),
    )
    for line, row in zip(found.lines, axes[1:], strict=True):
        row[1].imshow(facts.clusters[line.cluster].picture.reshape(8, 8), cmap="gray_r")
        bar(row[2], line.score, most[0], colors[line.cluster])
        bar(row[3], line.dissimilarity, most[1], colors[line.cluster])
        bar(row[4], line.attention, 1, colors[line.cluster])
        row[5].text(0.5, 0.5, f"{line.assignment:.0f}", ha="center", va="center", fontsize=10)
        bar(row[6], line.assignment * line.dissimilarity, most[1], colors[line.cluster])
    figure.supxlabel(
        f"sum of the last column: the loss of this row, {found.loss:.3f}; "
        f"weighted by the attention instead: {found.soft_loss:.3f}", fontsize=10,
    )  # fmt: skip
    return figure


def bar(ax: Axes, value: float, most: float, color: str) -> None:
    """One number as a bar, written beside it."""
    low = min(0.0, value)
    ax.barh([0], [value], color=color, height=0.6)
    ax.axvline(0, color=QUIET, lw=0.6)
    ax.set(xlim=(-most if low < 0 else -0.02 * most, 1.9 * most), ylim=(-0.6, 0.6))
    ax.text(1.88 * most, 0, f"{value:.3f}", ha="right", va="center", fontsize=9)


def main() -> None:
    """Draw the figures."""
    plt.rcParams["svg.hashsalt"] = "tell"  # the same picture gives the same file
    x = rows()
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4), layout="constrained")
    plane(axes[0], x)
    attention(axes[2], circle(axes[1], x))
    figure.savefig(HERE / "method-layer.svg", metadata={"Date": None})
    x = rows(noise=0.6)
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.6), layout="constrained")
    runaway(axes[0], x)
    directions(axes[1], x, "(b) weights only: centres never rest", gradient=False)
    directions(axes[2], x, "(c) weights and gradient: the method", gradient=True)
    for ax in axes:
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "method-normalisation.svg", metadata={"Date": None})
    parts().savefig(HERE / "method-parts.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
