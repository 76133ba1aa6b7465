"""`tell show`: say what a model is."""

from __future__ import annotations

from typing import Annotated

import typer

from tell.cli import options
from tell.cli.console import out, print_json


def command(
    model: options.Model,
    card: Annotated[
        bool, typer.Option("--card", help="Print a model card in Markdown instead.")
    ] = False,
    trust: options.Trust = False,
    json: options.Json = False,
) -> None:
    """Print what a model is, what it learned from, and its clusters.

    What a cluster looks like is its members: their means are in the units of your data. Where a
    table has many columns, each cluster is told by those in which it differs most from the others.
    Where the members are not known, centres are shown; on the sphere these are directions, whose
    entries have no units. A model that names code of its own is described without running it,
    unless --trust allows it.

    \b
    [bold]Examples[/]
      tell show model
      tell show model --json | jq .clusters
      tell show model --card > model/README.md
    """
    from tell import load
    from tell.cli.portrait import (
        clusters_table,
        describe_centers,
        describe_model,
        describe_unopened,
        print_facts,
        print_unopened,
    )
    from tell.exceptions import UntrustedModelError

    try:
        fitted = load(model, trust=trust)
    except UntrustedModelError as error:
        facts = describe_unopened(model)
        print_json(facts) if json else print_unopened(facts, str(error))
        return
    if card:
        from tell.export.card import model_card

        typer.echo(model_card(fitted), nl=False)
        return
    facts = describe_model(fitted)
    centers = describe_centers(fitted)
    if json:
        print_json(facts | centers)
        return
    print_facts(facts)
    if (grid := clusters_table(facts, centers)) is not None:
        out.print()
        out.print(grid)
