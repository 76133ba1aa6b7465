"""`tell choose`: how many clusters, with the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tell.cli import options
from tell.cli.console import err, out, print_json, table

if TYPE_CHECKING:
    from tell.choosing.choice import Choice

#: Numbers of clusters shown on either side of the chosen one, where many were tried.
AROUND = 6


def command(
    data: options.Data,
    most: options.MaxClusters = None,
    columns: options.Columns = None,
    drop: options.Drop = None,
    label: options.Label = None,
    types: options.Types = None,
    prepare: options.Prepare = True,
    gaps: options.Gaps = "fill",
    image_size: options.ImageSize = None,
    geometry: options.Geometry = None,
    standardize: options.Standardize = False,
    trim: options.Trim = None,
    seed: options.Seed = 0,
    memory: options.Memory = options.DEFAULT_MEMORY,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say how many clusters a data set has, and what speaks for each number.

    The gap says how much tighter the clusters are than those of rows without structure that spread
    alike; stability and strength, whether they come out again from another half of the rows; the
    silhouette, how far they lie apart. [bold]tell fit[/] without -k takes the same number.

    \b
    [bold]Examples[/]
      tell choose rows.csv
      tell choose digits --max 30
      tell choose rows.csv --json | jq .n_clusters
    """
    from tell.cli.fitting import build, how_to_prepare, open_new
    from tell.estimators.how_many import choose_for

    preparing = how_to_prepare(prepare, options.types(types), gaps, standardize=standardize)
    source = open_new(
        data,
        columns=options.names(columns),
        drop=options.names(drop),
        label=label,
        image_size=image_size,
        prepare=preparing,
    )
    model = build(
        "auto",
        max_clusters=most,
        prepare=preparing if source.preparation is not None else False,
        geometry=geometry,
        standardize=standardize,
        trim=options.share("--trim", trim),
        memory=memory,
        seed=seed,
        visible=err.is_terminal and not (quiet or json),
    )
    choice = choose_for(model, source)
    if json:
        print_json(choice.to_json())
        return
    print_choice(choice)
    hint_at_distances(choice.n_clusters, model.geometry)


def print_choice(choice: Choice) -> None:
    """Show the curves near the chosen number as a table, then the answer in words."""
    grid = table("clusters", "gap", "stability", "strength", "silhouette", "elbow", "", text=("",))
    for record in _near(choice):
        k = int(record["n_clusters"])
        mark = {choice.n_clusters: "chosen", choice.runner_up: "next"}.get(k, "")
        grid.add_row(
            str(k),
            f"{record['gap']:.3f} ± {record['gap_error']:.3f}",
            f"{record['stability']:.2f} ± {record['stability_error']:.2f}",
            f"{record['strength']:.2f}",
            f"{record['silhouette']:.2f} ± {record['silhouette_error']:.2f}",
            f"{record['elbow']:.2f} ± {record['elbow_error']:.2f}",
            mark,
        )
    out.print(grid)
    out.print(f"\n{choice.reasons}", markup=False)
    out.print(f"measured on {choice.evidence.n_rows:,} rows", markup=False)


def hint_at_distances(n_clusters: int, geometry: str) -> None:
    """Who finds nothing in directions may have groups that differ in length or lie about 0."""
    if n_clusters == 1 and geometry == "sphere":
        out.print("rows were compared by direction alone; by distance: --geometry euclidean")


def _near(choice: Choice) -> list[dict[str, float]]:
    """What is printed of the evidence; all of it is in --json."""
    wanted = (choice.n_clusters, choice.runner_up or choice.n_clusters)
    return [
        record
        for record in choice.table()
        if record["n_clusters"] == 1 or min(abs(record["n_clusters"] - k) for k in wanted) <= AROUND
    ]
