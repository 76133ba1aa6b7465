"""`tell export`: write a model for places without Python."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tell.cli import options
from tell.cli.console import plain, print_json, say


class Dialect(StrEnum):
    """Which SQL."""

    standard = "standard"
    bigquery = "bigquery"
    sqlite = "sqlite"


def command(
    model: options.Model,
    onnx: Annotated[
        Path | None, typer.Option(help="Write an ONNX file here.", show_default=False)
    ] = None,
    double: Annotated[
        bool, typer.Option("--double", help="ONNX takes arrays in double, not float.")
    ] = False,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print one SELECT that labels the rows of a table.")
    ] = False,
    table: Annotated[str, typer.Option(help="Name of that table.")] = "rows",
    dialect: Annotated[
        Dialect, typer.Option(help="standard is DuckDB's and PostgreSQL's.")
    ] = Dialect.standard,
    rules: Annotated[
        str | None,
        typer.Option(
            "--rules",
            metavar="DATA",
            help="Print rules that stand in for the model, learned from these rows.",
            show_default=False,
        ),
    ] = None,
    leaves: Annotated[
        int | None,
        typer.Option(
            help=r"Number of rules. \[default: two per cluster]", min=1, show_default=False
        ),
    ] = None,
    reject: Annotated[
        str | None,
        typer.Option(
            help='ONNX says "rejected" of rows as predict --reject does, such as 1%.',
            show_default=False,
        ),
    ] = None,
    trust: options.Trust = False,
    json: options.Json = False,
) -> None:
    """Write a model for places without Python: an ONNX file, SQL, or rules to apply by hand.

    An ONNX file takes rows in your own columns and units; preparation and scaling are inside. A
    model of a table has one input per column: numbers (NaN is a gap), texts ("" is a gap), dates as
    days since 1970. SQL is for models without an encoder; NULL is a gap. Rules are a small tree of
    thresholds on your columns, with its price; with --sql they are printed as a SELECT, also those
    of a model with an encoder.

    \b
    [bold]Examples[/]
      tell export model --onnx model.onnx
      tell export model --sql --table customers > label.sql
      tell export model --sql --table sales.customers --dialect bigquery
      tell export model --rules customers.csv --leaves 8
      tell export model --rules customers.csv --sql --table customers > label.sql
    """
    from tell import load
    from tell.exceptions import ParameterError
    from tell.runtime.model_rows import open_like

    if leaves is not None and rules is None:
        raise ParameterError("--leaves needs --rules DATA; say which rows to learn rules from")
    if onnx is None and not sql and rules is None:
        raise ParameterError(
            "export needs --onnx FILE, --sql or --rules DATA; see tell export --help"
        )
    fitted = load(model, trust=trust)
    shown: dict[str, object] = {}
    source: Any = fitted
    if rules is not None:
        source = fitted.to_rules(open_like(fitted, rules), n_leaves=leaves)
        shown = source.to_dict()
    if sql:
        shown["sql"] = source.to_sql(table, dialect=dialect.value)
    if json and shown:
        print_json(shown)
    elif sql:
        typer.echo(shown["sql"], nl=False)
    elif rules is not None:
        for line in str(source).splitlines():
            typer.echo(plain(line))
    if onnx is not None:
        share = options.share("--reject", reject)
        fitted.to_onnx(onnx, double=double, reject=share)
        say(f"ONNX model written to {onnx}")
