"""`tell demo`: cluster the embedded digits and compare with k-means, in a few seconds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tell.cli import options
from tell.cli.console import err, out, plain, print_json

if TYPE_CHECKING:
    from tell.data.chunks import Chunk

RESTARTS = 10


def command(
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("demo"),
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Cluster 1,797 handwritten digits, compare with k-means, and keep the model.

    The digits come with scikit-learn: nothing is downloaded. Labels are used to score only.
    """
    from tell.cli.fitting import build, fit_and_save
    from tell.data.sources import open_source

    source = open_source("digits")
    model = build(10, n_init=RESTARTS, seed=seed, visible=err.is_terminal and not (quiet or json))
    fitted = fit_and_save(model, source, folder / "model")
    report = fitted | {"kmeans": run_kmeans(source.read(), seed)}
    print_json(report) if json else print_report(report)


def run_kmeans(rows: Chunk, seed: int) -> dict[str, Any]:
    """Fit scikit-learn's k-means on the same rows, with as many restarts."""
    import numpy as np
    from sklearn.cluster import KMeans

    from tell.metrics import evaluate

    started = time.perf_counter()
    peer = KMeans(10, n_init=RESTARTS, random_state=seed).fit(rows.X)
    seconds = time.perf_counter() - started
    return {
        "seconds": round(seconds, 3),
        "metrics": evaluate(np.asarray(rows.y), peer.labels_).as_dict(),
    }


def print_report(report: dict[str, Any]) -> None:
    """Show the clusters, the scores beside those of k-means, and what was written."""
    from tell.cli.clusters import print_clusters, print_metrics

    out.print(f"[bold]{report['rows']:,} handwritten digits[/], 8 × 8 pixels, into 10 clusters\n")
    print_clusters(report["clusters"])
    out.print("\nagainst the true digits, which neither method has seen:")
    print_metrics({"TELL": report["metrics"], "scikit-learn KMeans": report["kmeans"]["metrics"]})
    folder = plain(report["model"])
    out.print(f"\nwrote: {folder}\nnext:  tell show {folder}", markup=False)
