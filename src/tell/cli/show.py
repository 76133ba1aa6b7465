"""`tell show`: say what a model is."""

from __future__ import annotations

from tell.cli import options
from tell.cli.console import out, print_json


def command(model: options.Model, trust: options.Trust = False, json: options.Json = False) -> None:
    """Print what a model is, what it learned from, and its clusters.

    Centres are in the units of your data. Where a table has many columns, each cluster is told by
    the columns in which its centre differs most from the other centres. A model that names code of
    its own is described without running it, unless --trust allows it.

    \b
    [bold]Examples[/]
      tell show model
      tell show model --json | jq .clusters
    """
    from tell import load
    from tell.cli.portrait import (
        centers_table,
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
    facts = describe_model(fitted)
    centers = fitted.centers_in_units()
    if json:
        print_json(facts | {"centers": centers})
        return
    print_facts(facts)
    grid = None
    if centers is not None and centers.ndim == 2:  # pictures are for the report
        grid = centers_table(facts["feature_names"], centers)
    if grid is not None:
        out.print()
        out.print(grid)
