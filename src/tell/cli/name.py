"""`tell name`: give a cluster a name that stays with the model."""

from __future__ import annotations

from typing import Annotated

import typer

from tell.cli import options
from tell.cli.console import print_json, say


def command(
    model: options.Model,
    cluster: Annotated[int, typer.Argument(help="Number of the cluster.", show_default=False)],
    name: Annotated[
        str | None,
        typer.Argument(help="What to call it; left out, its name is taken away."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Give a cluster a name, or take it away.

    Names are kept in the model's folder and appear in `tell show`, `tell explain` and the report.

    \b
    [bold]Examples[/]
      tell name model 2 "Families"
      tell name model 2
    """
    from tell import load
    from tell.contract import cluster_names

    fitted = load(model)
    fitted.name_clusters({cluster: name})
    fitted.save(model)
    if json:
        print_json({"names": {str(j): text for j, text in cluster_names(fitted).items()}})
    elif name is None:
        say(f"cluster {cluster} of {model} has no name now")
    else:
        say(f"cluster {cluster} of {model} is called {name.strip()}")
