"""Centres as pictures: a grid with epochs as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tell.contract import Reals
from tell.explanations.pictures import as_pictures
from tell.explanations.plots.axes import axes, bare, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_centers(
    rows: Mapping[str, ArrayLike] | ArrayLike,
    shape: tuple[int, ...],
    *,
    per_row: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Draw cluster centres as pictures (figure 5).

    Parameters
    ----------
    rows : (k, d) centres, or several of them by name ("TELL, epoch 100": …), one line each
    shape : (h, w) or (c, h, w) of one picture
    per_row : centres side by side when a single set is given
    """
    named = isinstance(rows, Mapping)
    if isinstance(rows, Mapping):
        sets = {str(name): np.asarray(value) for name, value in rows.items()}
    else:
        centers = np.asarray(rows)
        starts = range(0, len(centers), per_row)
        sets = {str(low): centers[low : low + per_row] for low in starts}
    columns = max(len(centers) for centers in sets.values())
    ax = axes(ax, min(14, 1.5 * named + 0.75 * columns + 0.4), 0.8 * len(sets) + 0.4)
    _sheet(ax, list(sets.values()), shape, numbered=not named)
    if named:
        height = _cell(shape)[0]
        middles = [(i + 0.5) * height for i in range(len(sets))]
        ax.set_yticks(middles, list(map(written, sets)), fontsize=8)
        ax.tick_params(length=0)
    return ax


def _cell(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of a picture with a gap and room for its number."""
    height, width = shape[-2:]
    gap = max(1, round(0.08 * width))
    return height + gap, width + gap


def _sheet(ax: Axes, lines: list[Reals], shape: tuple[int, ...], *, numbered: bool) -> None:
    pictures = as_pictures(np.vstack(lines), shape)
    height, width = _cell(shape)
    extra = max(2, round(0.35 * shape[-2])) if numbered else 0
    height += extra
    columns = max(map(len, lines))
    background = np.full((len(lines) * height, columns * width, *pictures.shape[3:]), 255, np.uint8)
    done = 0
    for i, line in enumerate(lines):
        for j in range(len(line)):
            top, left = i * height + extra, j * width
            background[top : top + shape[-2], left : left + shape[-1]] = pictures[done]
            if numbered:
                place = (left + shape[-1] / 2 - 0.5, top - extra / 2 - 0.5)
                ax.text(*place, str(done), ha="center", va="center", fontsize=8)
            done += 1
    ax.imshow(background, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    bare(ax)
