"""`tell export`: write a model for places without Python."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tell.cli import options
from tell.cli.console import print_json, say


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
    """Write a model for places without Python: an ONNX file, or one SQL statement.

    An ONNX file takes rows in your own columns and units; preparation and scaling are inside. A
    model of a table has one input per column: numbers (NaN is a gap), texts ("" is a gap), dates as
    days since 1970. SQL is for models without an encoder; NULL is a gap.

    \b
    [bold]Examples[/]
      tell export model --onnx model.onnx
      tell export model --sql --table customers > label.sql
      tell export model --sql --table sales.customers --dialect bigquery
    """
    from tell import load
    from tell.exceptions import ParameterError

    if onnx is None and not sql:
        raise ParameterError("export needs --onnx FILE or --sql; see tell export --help")
    fitted = load(model, trust=trust)
    if sql:
        statement = fitted.to_sql(table, dialect=dialect.value)
        print_json({"sql": statement}) if json else typer.echo(statement, nl=False)
    if onnx is not None:
        share = None if reject is None else options.share("--reject", reject)
        fitted.to_onnx(onnx, double=double, reject=share)
        say(f"ONNX model written to {onnx}")
