"""`tell fit`: cluster a data set and keep the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tell.cli import options
from tell.cli.console import err, out, plain, print_json, say

if TYPE_CHECKING:
    from rich.table import Table

    from tell.data.chunks import Chunk


def command(
    context: typer.Context,
    data: options.Data,
    clusters: options.ClustersOrAuto = None,
    most: options.MaxClusters = None,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            metavar="MODEL",
            help="An earlier model of such rows: start from it, read and prepare rows as it does, "
            "and keep the numbers of its clusters. -k may differ.",
            rich_help_panel="Model",
            show_default=False,
        ),
    ] = None,
    columns: options.Columns = None,
    drop: options.Drop = None,
    label: options.Label = None,
    types: options.Types = None,
    prepare: options.Prepare = True,
    gaps: options.Gaps = "fill",
    image_size: options.ImageSize = None,
    geometry: options.Geometry = None,
    standardize: options.Standardize = False,
    n_init: options.Restarts = None,
    half_life: options.HalfLife = None,
    trim: options.Trim = None,
    seed: options.Seed = 0,
    memory: options.Memory = options.DEFAULT_MEMORY,
    deep: options.Deep = False,
    recipe: options.Recipe = None,
    start: options.Start = None,
    augment: options.Augment = None,
    jobs: options.Jobs = None,
    checkpoint: options.Checkpoint = None,
    passes: options.Passes = None,
    workers: options.Workers = None,
    address: options.Address = None,
    folder: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder for the model.", rich_help_panel="Output"),
    ] = Path("model"),
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a model in that folder.", rich_help_panel="Output"),
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Cluster a table, an array or a named data set, and keep the model in a folder.

    A table is taken as it is: what each column is and what becomes of it is shown first, and
    kept in the model for all later rows.

    \b
    [bold]Examples[/]
      tell fit digits -k 10 --out model
      tell fit rows.csv --max 30
      tell fit this_month.csv --like model --out newer
      tell fit flowers.csv -k 3 --label species
      tell fit people.csv -k 5 --drop name --column income:log --column plan:category
      tell fit "logs/*.parquet" -k 50 --geometry euclidean --json > fit.json
      tell fit mnist -k 10 --deep --n-init 4 --jobs 2 --checkpoint unfinished
      tell fit mnist -k 10 --deep --augment affine
      tell fit "rows/*.parquet" -k 100 --workers 8 --address auto
    """
    from tell.cli.fitting import (
        Remembered,
        advice,
        build,
        connect,
        fit_and_save,
        how_to_prepare,
        open_new,
    )
    from tell.cli.portrait import print_preparation

    check_free(folder, replace=force)
    if like is not None:
        from tell.cli.refitting import check_takes_over, fit_like

        check_takes_over(context)
        result = fit_like(
            like,
            data,
            folder,
            clusters=clusters,
            label=label,
            seed=seed,
            memory=memory,
        )
        print_json(result) if json else print_fit(result)
        return
    choice = {"columns": options.names(columns), "drop": options.names(drop)}
    preparing = how_to_prepare(prepare, options.types(types), gaps, standardize=standardize)
    source = open_new(data, **choice, label=label, image_size=image_size, prepare=preparing)
    connect(workers, address)
    if source.preparation is not None and not (quiet or json):
        print_preparation(
            source.preparation,
            by_default=geometry is None and not standardize,
            deep=deep,
        )
    model = build(
        clusters or "auto",
        max_clusters=most,
        deep=deep,
        prepare=preparing if source.preparation is not None else False,
        geometry=geometry,
        standardize=standardize,
        n_init=n_init,
        half_life=half_life,
        trim=options.share("--trim", trim),
        memory=memory,
        only_deep={
            "recipe": recipe,
            "start": start,
            "augment": augment,
            "n_jobs": jobs,
            "checkpoint": checkpoint,
        },
        seed=seed,
        passes=passes,
        workers=workers,
        visible=err.is_terminal and not (quiet or json),
    )

    def look(first_rows: Chunk) -> None:
        plain = not (deep or standardize or json) and source.preparation is None
        if plain and (note := advice(source, first_rows)):
            say(note)

    result = fit_and_save(
        model,
        Remembered(source, look),
        folder,
        label=label,
        choice=choice,
        image_size=image_size,
    )
    if json:
        print_json(result)
        return
    print_fit(result, members=_members(model) if source.preparation is not None else None)


def check_free(folder: Path, *, replace: bool) -> None:
    """Say before the work, not after it, that the folder cannot be written."""
    from tell.exceptions import InputError
    from tell.persistence import check_place

    if (folder / "model.json").is_file() and not replace:
        raise InputError(f"{folder} holds a model; pass --force to replace it, or use --out")
    check_place(folder)


def _members(model: Any) -> Table | None:
    """What the clusters of a table look like."""
    from tell.cli.portrait import clusters_table, describe_centers, describe_model

    return clusters_table(describe_model(model), describe_centers(model))


def print_fit(result: dict[str, Any], *, members: Table | None = None) -> None:
    """Show people what came out and what they can do next."""
    from tell.cli.choose import hint_at_distances
    from tell.cli.cluster_table import print_clusters, print_metrics
    from tell.explanations.words import counted

    out.print(
        f"[bold]{counted(result['n_clusters'], 'cluster')}[/] of {result['rows']:,} rows × "
        f"{result['features']:,} columns in {result['seconds']:.1f} s\n"
        f"{result['geometry']}, loss {result['loss']:.4g}, {result['iterations']} iterations\n"
    )
    if result["choice"]:
        out.print(f"why so many: {result['choice']['reasons']}", markup=False)
        if result["kind"] == "TELL":
            hint_at_distances(result["n_clusters"], result["geometry"])
        out.print()
    if result["trimmed"]:
        rows = counted(result["trimmed"], "row")
        out.print(f"{rows} served worst left out of the centres (--trim)\n")
    for line in result.get("lineage_in_words", ()):
        out.print(line, markup=False)
    print_clusters(result["clusters"])
    if members is not None:
        out.print()
        out.print(members)
    if result["metrics"]:
        out.print("\nagainst the known classes:")
        print_metrics({"score": result["metrics"]})
    folder, data = plain(result["model"]), plain(result["data"])
    after = f"tell show {folder}" if members is None else f"tell explain {folder} {data}"
    out.print(f"\nmodel: {folder}\nnext:  {after}", markup=False)
