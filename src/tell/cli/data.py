"""`tell data`: list, fetch and find the named data sets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tell.cli import options


class Action(StrEnum):
    """What to do with the named sets."""

    LIST = "list"
    GET = "get"
    PATH = "path"


def command(
    action: Annotated[
        Action,
        typer.Argument(
            metavar="ACTION", help="list: all sets. get: fetch one. path: where its files lie."
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Of the set to get or find.", show_default=False),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the published files lie already. Default: $TELL_DATA.",
            show_default=False,
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not use the network.")] = False,
    json: options.Json = False,
) -> None:
    """List, fetch and find the named data sets.

    Files are looked for in --data-dir, then downloaded, proved by checksum and kept in a cache
    ($TELL_CACHE moves it).

    \b
    [bold]Examples[/]
      tell data list
      tell data get mnist
      ls "$(tell data path mnist)"
    """
    from tell.exceptions import ParameterError

    if action is Action.LIST:
        _list(json=json)
    elif name is None:
        raise ParameterError(f"tell data {action} needs the NAME of a set; see tell data list")
    elif action is Action.GET:
        _get(name, data_dir, download=not offline, json=json)
    else:
        _path(name, json=json)


def _list(*, json: bool) -> None:
    from tell.cli.console import out, print_json, table
    from tell.data import datasets

    if json:
        print_json([_facts(name) for name in datasets.names()])
        return
    grid = table("name", "rows", "sample", "classes", "what", "here", text=("name", "what", "here"))
    for name in datasets.names():
        found = datasets.describe(name)
        here = "yes" if _is_here(name) else ""
        shape = _shape(found.shape)
        grid.add_row(name, f"{found.rows:,}", shape, str(found.classes), found.about, here)
    out.print(grid)


def _get(name: str, data_dir: Path | None, *, download: bool, json: bool) -> None:
    from tell.cli.console import out, print_json
    from tell.data import datasets

    data = datasets.load(name, data_dir, download=download, verbose=not json)
    if json:
        print_json(_facts(name))
        return
    classes = len(data.target_names)
    out.print(f"{name}: {len(data.X):,} rows of {_shape(data.shape)}, {classes} classes")


def _path(name: str, *, json: bool) -> None:
    from tell.cli.console import print_json
    from tell.data import datasets
    from tell.exceptions import DataUnavailableError

    folder = datasets.path(name)
    if folder is None:
        if datasets.is_embedded(name):
            raise DataUnavailableError(f"{name} has no files: it is embedded in a package; use it")
        raise DataUnavailableError(
            f"{name} has no files in the cache: it was never fetched; run tell data get {name}"
        )
    print_json(_facts(name)) if json else typer.echo(folder)


def _facts(name: str) -> dict[str, object]:
    """Say of a set what machines may ask."""
    from tell.data import datasets

    found, folder = datasets.describe(name), datasets.path(name)
    return {
        "name": name,
        "rows": found.rows,
        "shape": list(found.shape),
        "classes": found.classes,
        "about": found.about,
        "here": _is_here(name),
        "path": None if folder is None else str(folder),
    }


def _is_here(name: str) -> bool:
    from tell.data import datasets

    return datasets.path(name) is not None or datasets.is_embedded(name)


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
