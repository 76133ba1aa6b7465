"""`tell data`: list, fetch and find the named data sets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Action(StrEnum):
    """What to do with the named sets."""

    LIST = "list"
    GET = "get"
    PATH = "path"


def command(
    action: Annotated[
        Action, typer.Argument(help="list: all names; get: fetch one; path: where it lies")
    ],
    name: Annotated[str | None, typer.Argument(help="name of the set, e.g. mnist")] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="folder with the published files; default: $TELL_DATA"),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="do not use the network")] = False,
) -> None:
    """List, fetch and find the named data sets.

    Files are looked for in --data-dir, then downloaded, proved by checksum and kept in a cache
    ($TELL_CACHE moves it).
    """
    from tell.exceptions import ParameterError

    if action is Action.LIST:
        _list()
    elif name is None:
        raise ParameterError(f"tell data {action} needs the NAME of a set; see tell data list")
    elif action is Action.GET:
        _get(name, data_dir, download=not offline)
    else:
        _path(name)


def _list() -> None:
    from tell.cli.console import out, table
    from tell.data import datasets

    grid = table("name", "rows", "sample", "classes", "what", "here", text=("name", "what", "here"))
    for name in datasets.names():
        found = datasets.describe(name)
        shape = " × ".join(map(str, found.shape))
        here = "yes" if datasets.path(name) or datasets.is_embedded(name) else ""
        grid.add_row(name, f"{found.rows:,}", shape, str(found.classes), found.about, here)
    out.print(grid)


def _get(name: str, data_dir: Path | None, *, download: bool) -> None:
    from tell.cli.console import out
    from tell.data import datasets

    data = datasets.load(name, data_dir, download=download, verbose=True)
    shape = " × ".join(map(str, data.shape))
    out.print(f"{name}: {len(data.X):,} rows of {shape}, {len(data.target_names)} classes")


def _path(name: str) -> None:
    from tell.data import datasets
    from tell.exceptions import DataUnavailableError

    folder = datasets.path(name)
    if folder is None:
        if datasets.is_embedded(name):
            raise DataUnavailableError(f"{name} has no files: it is embedded in a package; use it")
        raise DataUnavailableError(
            f"{name} has no files in the cache: it was never fetched; run tell data get {name}"
        )
    typer.echo(folder)
