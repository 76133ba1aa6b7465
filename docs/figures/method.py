"""Draw docs/figures/method-layer.svg and method-normalisation.svg with the real layer.

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

from tell import TELL, ClusterLayer
from tell.explanations.palette import cluster_colors

HERE = Path(__file__).parent
K = 3
COLORS = cluster_colors(K)
QUIET = "#7b8794"
STEPS = 40


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


def main() -> None:
    """Draw both figures."""
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


if __name__ == "__main__":
    main()
