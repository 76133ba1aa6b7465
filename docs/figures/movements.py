"""Draw what the movements of `augment=` do to a photograph and to a digit.

    python docs/figures/movements.py

Writes docs/figures/movements.png; both images come with scikit-learn.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits, load_sample_image

from tell.core.augment import MOVEMENTS
from tell.core.batches import seeded_generator

COPIES = 2


def images() -> dict[str, torch.Tensor]:
    """A photograph (1, 3, 128, 128) and a digit (1, 1, 8, 8), in [0, 1]."""
    photo = np.asarray(load_sample_image("flower.jpg"), dtype=np.float32)[80:336:2, 250:506:2] / 255
    digit = load_digits().images[2].astype(np.float32) / 16
    return {
        "photo": torch.from_numpy(photo).permute(2, 0, 1)[None],
        "digit": torch.from_numpy(digit)[None, None],
    }


def main() -> None:
    """Draw one row per image and copy, one column per movement."""
    mpl.rcParams["font.size"] = 11
    rows = [(image, copy) for image in images().values() for copy in range(COPIES)]
    titles = ["as it is", *MOVEMENTS]
    _, axes = plt.subplots(len(rows), len(titles), figsize=(1.5 * len(titles), 1.6 * len(rows)))
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title)
    for line, (image, copy) in zip(axes, rows, strict=True):
        for ax, title in zip(line, titles, strict=True):
            moved = image
            if title in MOVEMENTS:  # a movement of its own for each of several equal images
                many = image.repeat(8, 1, 1, 1)
                moved = MOVEMENTS[title]()(many, seeded_generator(3))[2 + 2 * copy :]
            ax.imshow(moved[0].permute(1, 2, 0).numpy(), cmap="gray_r", vmin=0, vmax=1)
            ax.set_axis_off()
    plt.tight_layout()
    plt.savefig(Path(__file__).with_suffix(".png"), dpi=90)


if __name__ == "__main__":
    main()
