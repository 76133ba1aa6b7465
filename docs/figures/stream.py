"""Draw the stream tutorial's figure: what a half-life is worth when the rows change.

python docs/figures/stream.py     # writes docs/figures/stream.svg
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from tell import TELL

START, BATCH = 400, 50


def losses(half_life: float | None) -> list[float]:
    """Return the loss of each batch, measured before it is learned."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    old, new = (rng.permutation(np.flatnonzero(part)) for part in (y < 5, y >= 5))
    model = TELL(5, half_life=half_life, random_state=0).fit(X[old[:START]])
    stream = np.concatenate([old[START:], new])
    for start in range(0, len(stream), BATCH):
        model = model.partial_fit(X[stream[start : start + BATCH]])
    return [batch["loss"] for batch in model.stream_]


def main() -> None:
    import matplotlib

    matplotlib.use("svg")
    # The same bytes from the same numbers: no date, no random names inside.
    matplotlib.rcParams.update({"svg.hashsalt": "tell", "font.size": 10})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
    styles = {
        None: ("never forgets", "#7a7a8c", "--"),
        200: ("half-life of 200 rows", "#c2410c", "-"),
    }
    for half_life, (name, color, line) in styles.items():
        values = losses(half_life)
        rows = BATCH * np.arange(1, len(values) + 1)
        axes.plot(rows, values, color=color, linestyle=line, linewidth=2, label=name)
    axes.axvline(501, color="#444", linewidth=0.8, linestyle=":")
    axes.annotate(
        "fives to nines\nbegin",
        (501, 0.385),
        xytext=(-8, 0),
        textcoords="offset points",
        ha="right",
        va="top",
    )
    axes.set(xlabel="rows that came after the fit", ylabel="mean loss of a batch", ylim=(0, 0.4))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
