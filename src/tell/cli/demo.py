"""`tell demo`: cluster the embedded digits end to end, compare with k-means, and explain."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tell.cli import options
from tell.cli.console import err, out, plain, print_json, say

if TYPE_CHECKING:
    from tell.contract import ClusterModel
    from tell.data.chunks import Chunk, Source

RESTARTS = 10


def command(
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("demo"),
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Cluster 1,797 handwritten digits, compare with k-means, and explain the clusters.

    Once on the pixels as they are (TELL) and once end to end, on features that are learned for
    it (DeepTELL); under a minute on two cores. The digits come with scikit-learn: nothing is
    downloaded. Labels are used to score only.
    """
    from tell.cli.fitting import build, fit_and_save
    from tell.data.sources import open_source

    check_folder(folder)
    visible = err.is_terminal and not (quiet or json)
    source = open_source("digits")
    before = build(10, n_init=RESTARTS, seed=seed, visible=visible)
    after = build(10, deep=True, seed=seed, visible=visible)
    pixels = fit_and_save(before, source, folder / "pixel-model")
    found = fit_and_save(after, source, folder / "model")
    found["pixels"] = pixels
    found["kmeans"] = run_kmeans(source.read(), seed)
    found["report"] = write_html(after, source, folder / "report.html", visible=visible)
    print_json(found) if json else print_found(found)


def check_folder(folder: Path) -> None:
    """Refuse to write over anything but an earlier demo."""
    from tell.exceptions import InputError

    if (folder / "model").exists() and not (folder / "pixel-model").exists():
        raise InputError(
            f"{folder / 'model'} is not a demo's model and would be overwritten; pass another --out"
        )


def run_kmeans(rows: Chunk, seed: int) -> dict[str, object]:
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


def write_html(model: ClusterModel, source: Source, path: Path, *, visible: bool) -> str | None:
    """Explain the clusters in one HTML file, where the packages for that are installed."""
    from tell.exceptions import MissingDependencyError
    from tell.explanations import explain, report

    try:
        facts = explain(model, source, random_state=0, verbose=int(visible))
        report(facts, path, command="tell demo")
    except MissingDependencyError as error:
        say(f"no report: {error}")
        return None
    return str(path)


def print_found(found: dict[str, Any]) -> None:
    """Show the clusters, the scores beside those of k-means, and what was written."""
    from tell.cli.cluster_table import print_clusters, print_metrics

    out.print(f"[bold]{found['rows']:,} handwritten digits[/], 8 × 8 pixels, into 10 clusters\n")
    print_clusters(found["clusters"])
    out.print("\nagainst the true digits, which no method has seen:")
    scores = {
        "KMeans, pixels": found["kmeans"]["metrics"],
        "TELL, pixels": found["pixels"]["metrics"],
        "DeepTELL, end to end": found["metrics"],
    }
    print_metrics(scores)
    written = [found["model"], found["pixels"]["model"], found["report"]]
    out.print(f"\nwrote: {', '.join(plain(name) for name in written if name)}", markup=False)
    out.print(f"next:  tell show {plain(found['model'])}", markup=False)
