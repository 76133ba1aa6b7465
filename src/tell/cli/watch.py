"""`tell watch`: a page that shows what a stream does to a model."""

from __future__ import annotations

from typing import Annotated

import typer

from tell.cli import options
from tell.cli.console import say


def command(
    model: options.Model,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")
    ] = 8001,
    trust: options.Trust = False,
) -> None:
    """Show live what tell update, or a service that learns, does to a model.

    Sizes over time, the running loss beside what is usual, drift, and the latest rows that do not
    fit, on a page for this machine alone. It reads what is saved into the model folder; nothing
    else has to run, and nothing is changed.

    \b
    [bold]Examples[/]
      tell watch model
      tail -f log.csv | tell update model - --save-seconds 1
    """
    from tell.cli.serve import address, listen, need, read_settings, run

    need("fastapi", "uvicorn", "prometheus_client")
    settings = read_settings("127.0.0.1", None, None, ("1MiB", 30.0, 64), learn=False)
    from tell.serving.app import make_watch_app
    from tell.serving.bodies import RowLimits
    from tell.serving.service import Service

    service = Service(model, RowLimits(), trust=trust)
    with listen("127.0.0.1", port) as listener:
        app = make_watch_app(service, settings)
        say(f"{model} is shown at {address(listener)}")
        run(app, listener)
