"""`tell explain`: write a report on a model, or say why one row is where it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tell.cli import options
from tell.cli.console import err, out, plain, print_json, say, table
from tell.exceptions import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tell.data.chunks import Source
    from tell.explanations import Comparison, Explanation, Moves
    from tell.explanations.contrast import Contrast
    from tell.explanations.points import Counterfactual, PointFacts

_NOT_A_TABLE = (
    "--profile and --id need a table with columns, that can be read twice, got {}; in Python, pass "
    "profile= and ids= to explain"
)

_OUTPUT = "Output"


def command(
    model: options.Model,
    data: options.Data,
    target: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help=r"File for the report. \[default: report.html, none with --row or --json]",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ] = None,
    row: Annotated[
        list[int] | None,
        typer.Option(
            "--row",
            metavar="N",
            help="Look closely at this row, counted from 0; may be given several times.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="OLD",
            help="An older model: say which clusters stayed, split, merged or moved, and why rows "
            "changed their cluster.",
            show_default=False,
        ),
    ] = None,
    contrast: Annotated[
        list[str] | None,
        typer.Option(
            "--contrast",
            metavar="J,K",
            help="Say what cluster J is unlike cluster K; may be given several times.",
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        Literal["middle", "mean"],
        typer.Option(
            "--reference", help="Where a row's reasons start: between two centres, or the mean row."
        ),
    ] = "middle",
    map_method: Annotated[
        Literal["tsne", "pca"],
        typer.Option("--map", help="How the map is made; pca is quicker.", rich_help_panel=_OUTPUT),
    ] = "tsne",
    fixed: Annotated[
        list[str] | None,
        typer.Option(
            "--fixed",
            metavar="NAME",
            help="A column that may not change where a row is moved; may be given several times.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="Describe the clusters by this column too, though it was not clustered.",
            show_default=False,
        ),
    ] = None,
    reject: Annotated[
        str | None,
        typer.Option(
            "--reject",
            metavar="SHARE",
            help="Say which rows predict --reject gives up, such as 1%, and why each.",
            show_default=False,
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="Call rows by this column instead of by their number.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            metavar="N=NAME",
            help="Call cluster N so, here and from now on; may be given several times.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Write DATA with the cluster of every row to this .csv or .parquet file, too.",
            rich_help_panel=_OUTPUT,
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=10, help="Rows behind map and measurements.")
    ] = 5000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything drawn.")] = 0,
    label: options.Label = None,
    trust: options.Trust = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what the clusters are, why rows are where they are, and how far to trust it.

    The report is one HTML file that works offline. With [bold]--row[/] the answer is printed
    instead, and with [bold]--json[/] all facts are.

    \b
    [bold]Examples[/]
      tell explain model flowers.csv --out report.html
      tell explain model flowers.csv --row 17
      tell explain model customers.csv --profile country --id name --fixed age
      tell explain model customers.csv --name 0=Families --name 1=Students --labels labelled.csv
      tell explain model flowers.csv --contrast 0,2
      tell explain new_model flowers.csv --against old_model
      tell explain model flowers.csv --reject 1%
    """
    from tell import load
    from tell.cli.predict import check_rejects
    from tell.cli.writers import check_page, check_target
    from tell.explanations import compare, explain, explain_change, report
    from tell.runtime.model_rows import open_like

    pairs = [options.cluster_pair(text) for text in contrast or ()]
    check_page(target, data)
    check_target(labels, data, many_columns=True)
    share = options.share("--reject", reject)
    fitted = load(model, trust=trust)
    check_rejects(fitted, share)
    if name:
        fitted.name_clusters(options.cluster_names(name))
        fitted.save(model)
    source = open_like(fitted, data, label=label)
    older = older_rows = None
    if against is not None:
        older = load(against, trust=trust)
        if source.rereadable:
            older_rows = open_like(older, data, label=label)  # its own columns, prepared its way
        else:
            source = older_rows = _held(source)
    only_rows = bool(row) and target is None and not json
    beside = read_beside(data, [*(profile or ()), *([id_column] if id_column else ())])
    facts = explain(
        fitted,
        source,
        rows=row or (),
        fixed=fixed or (),
        reject=share,
        profile={name: beside[name] for name in profile} if profile else None,
        ids=None if id_column is None else beside[id_column].tolist(),
        reference=reference,
        map_method=None if only_rows else map_method,
        quality=not only_rows,
        sample_size=sample,
        random_state=seed,
        verbose=int(err.is_terminal and not (quiet or json)),
    )
    contrasts = [facts.contrast(*pair) for pair in pairs]
    changes = moves = None
    if older is not None:
        changes = compare(older, fitted, source, X_old=older_rows)
        moves = explain_change(older, fitted, source, X_old=older_rows)
    if target is None and not (only_rows or json):
        target = Path("report.html")
    if target is not None:
        report(facts, target, comparison=changes, moves=moves, command=_command_line())
        say(f"report written to {target}")
    if labels is not None:
        _write_labelled(fitted, data, labels, label)
    if json:
        print_json(_as_json(facts, changes, moves, contrasts))
    else:
        print_explanation(facts, changes, only_rows=only_rows)
        for one in contrasts:
            print_contrast(facts, one)
        if moves is not None:
            print_moves(moves)


def _write_labelled(fitted: Any, data: str, target: Path, label: str | None) -> None:
    """Write the data itself with a column for the clusters, and one for their names."""
    from tell.cli.labelling import write_labels
    from tell.data.tables import TableSource
    from tell.runtime.model_rows import open_like

    source = open_like(fitted, data, label=label, keep_gaps=True)
    keep = list(source.available) if isinstance(source, TableSource) else []
    done = write_labels(fitted, source, target, keep=keep, silent=True)
    say(f"{done['rows']:,} labelled rows written to {target}")


def _command_line() -> str:
    return " ".join(["tell", *map(plain, sys.argv[1:])])


def _as_json(
    facts: Explanation, changes: Comparison | None, moves: Moves | None, contrasts: list[Contrast]
) -> dict[str, object]:
    from tell.explanations.plain import as_plain

    beside = {"changes": changes, "moves": moves, "contrasts": contrasts or None}
    return facts.to_dict() | {name: as_plain(part) for name, part in beside.items() if part}


def print_explanation(facts: Explanation, changes: Comparison | None, *, only_rows: bool) -> None:
    """Print the chosen rows, or one line per cluster; then what changed."""
    if only_rows:
        for point in facts.points:
            print_point(point, is_image=facts.data.shape is not None)
    else:
        print_verdict(facts)
        named = any(cluster.name is not None for cluster in facts.clusters)
        titles = ("cluster", *(("name",) if named else ()), "rows", "summary")
        grid = table(*titles, text=("name", "summary"))
        for cluster in facts.by_size():
            name = (_text(cluster.name or ""),) if named else ()
            grid.add_row(str(cluster.index), *name, f"{cluster.size:,}", _text(cluster.summary))
        out.print(grid)
        print_rejections(facts)
    if changes is not None:
        out.print(f"\n[bold]Against the older model[/] (agreement {changes.agreement:.2f})")
        for fate in changes.fates:
            out.print(f"  {_text(fate.summary)}")


def print_rejections(facts: Explanation, n: int = 10) -> None:
    """Print the rows that belong nowhere, farthest out first, each with its reason."""
    found = facts.rejections
    if found is None:
        return
    out.print(f"\n[bold]{_text(found.summary(facts.data.n_rows))}[/]")
    for one in found.rows[:n]:
        out.print(
            f"  {_text(facts.row_title(one.row))} (cluster {one.cluster}): {_text(one.reason)}"
        )
    if found.count > n:
        out.print(f"  … and {found.count - n:,} more: --json has them, up to 1,000")


def print_contrast(facts: Explanation, contrast: Contrast, n: int = 8) -> None:
    """Print what one cluster is unlike another."""
    title = facts.cluster_title(contrast.cluster).removeprefix("cluster ")
    out.print(f"\n[bold]Cluster {_text(title)}, {_text(contrast.summary)}[/]")
    grid = table("column", "here", "there", "share", text=("column",))
    for one in contrast.differences[:n]:
        values = one.values()
        grid.add_row(_text(one.name), *map(_text, values), f"{one.share:.1%}")
    out.print(grid)


def print_moves(moves: Moves, n: int = 8) -> None:
    """Print which rows changed their cluster, and why."""
    from rich.padding import Padding

    share = moves.n_moved / moves.n_rows
    out.print(f"\n[bold]Rows that changed cluster[/] ({moves.n_moved:,}, {share:.1%})")
    for move in moves.moves[:n]:
        out.print(Padding(_text(move.summary), (0, 0, 0, 2), expand=False))
    if rest := moves.moves[n:]:
        out.print(f"  and {sum(move.n_rows for move in rest):,} in {len(rest)} smaller moves")


def print_verdict(facts: Explanation) -> None:
    """Print first whether there is structure, and what is easily overlooked."""
    if facts.structure is not None:
        out.print(f"[bold]{_text(facts.structure.summary)}[/]")
    for remark in facts.remarks:
        out.print(f"note: {_text(remark)}")
    if facts.structure is not None or facts.remarks:
        out.print()


def print_point(point: PointFacts, *, is_image: bool, n: int = 8) -> None:
    """Print why one row is where it is."""
    out.print(f"[bold]{_text(point.summary)}[/]\n")
    _print_attention(point)
    if point.cluster == point.runner_up:  # the only one
        out.print()
        return
    if not is_image:
        out.print(f"\n[bold]Contributions to the margin against cluster {point.runner_up}[/]")
        _print_contributions(point, n)
    total = sum(one.amount for one in point.contributions)
    out.print(
        f"\nmargin {point.margin:.6g} = sum of contributions {total:.6g}"
        + (f" + baseline {point.baseline_margin:.6g}" if point.baseline_margin else "")
        + f"   ({point.method}, off by {point.completeness_error:.0e})"
    )
    if point.counterfactual is not None and not is_image:
        _print_way_out(point.counterfactual)
    out.print()


def _print_way_out(found: Counterfactual) -> None:
    """Print the values that move a row: the model was asked about exactly these."""
    if not found.changes:
        out.print("\nno change of the columns that may change was found that moves it")
        return
    out.print(f"\n[bold]What would move it to cluster {found.cluster}[/]")
    grid = table("column", "now", "needed", text=("column",))
    for change in found.changes:
        grid.add_row(_text(change.name), *map(_text, change.text()))
    out.print(grid)


def _print_attention(point: PointFacts) -> None:
    grid = table("cluster", "attention", "", "squared distance", text=("",))
    # By distance: attention has many equal zeros.
    for j in point.squared_distances.argsort(kind="stable")[:5].tolist():
        share = float(point.attention[j])
        bar = "█" * round(20 * share)
        grid.add_row(str(j), f"{share:.1%}", bar, f"{point.squared_distances[j]:.4g}")
    out.print(grid)


def _print_contributions(point: PointFacts, n: int) -> None:
    grid = table("column", "value", "speaks", "amount", text=("column", "speaks"))
    for one in point.contributions[:n]:
        side = f"for {point.cluster if one.amount > 0 else point.runner_up}" if one.amount else "–"
        grid.add_row(_text(one.name), _text(one.text()), side, f"{one.amount:+.4g}")
    rest = point.contributions[n:]
    if rest:
        amount = sum(one.amount for one in rest)
        grid.add_row(f"{len(rest)} others", "", "", f"{amount:+.4g}")
    out.print(grid)


def _text(value: str) -> str:
    """Text from data: no control characters, no markup of the console."""
    from rich.markup import escape

    return escape(plain(value))


def _held(source: Source) -> Source:
    """Read a stream that is needed twice into memory."""
    from tell.data.arrays import ArraySource

    rows = source.read()
    copy = ArraySource(rows.X, y=rows.y, name=source.name, shape=source.shape)
    copy.feature_names, copy.preparation = source.feature_names, source.preparation
    return copy


def read_beside(data: str, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The columns `names` (n,) of a table: numbers, days, or text; a gap is NaN, NaT or empty."""
    if not names:
        return {}
    from tell.data.prepared_tables import held_table
    from tell.data.sources import open_source
    from tell.data.tables import TableSource

    source = open_source(data)
    if not isinstance(source, TableSource) or not source.rereadable:
        raise InputError(_NOT_A_TABLE.format(data))
    for name in names:
        if name not in source.available:
            known = ", ".join(source.available[:12])
            raise InputError(f"{data}: there is no column {name!r}; it has {known}")
    source.columns = list(dict.fromkeys(names))
    table = held_table(source).table
    return {name: _column(table.column(name).combine_chunks()) for name in source.columns}


def _column(cells: Any) -> NDArray[Any]:
    """Cells as what they are, as a preparation reads them."""
    import numpy as np
    from pyarrow import types

    from tell.data.cells import as_days, as_numbers, as_texts, date_patterns

    if (days := as_days(cells, next(iter(date_patterns(cells)), None))) is not None:
        return np.rint(days * 86400).astype("datetime64[s]")
    if not types.is_boolean(cells.type) and (numbers := as_numbers(cells)) is not None:
        whole = np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all()
        return numbers.astype(np.int64) if whole and (abs(numbers) < 1e15).all() else numbers
    return as_texts(cells)
