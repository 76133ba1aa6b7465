"""The options that commands share, so that each reads and explains the same everywhere."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Literal

import typer

from tell.data.limits import DEFAULT_MEMORY as DEFAULT_MEMORY

_DATA, _MODEL, _OUTPUT = "Data", "Model", "Output"

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv (also .gz), .tsv, .parquet, .ndjson, .npy or .npz file, a folder or glob of "
        "tables, a folder of images, a named data set such as [bold]digits[/], or [bold]-[/] for "
        "CSV or JSON lines on standard input.",
        show_default=False,
    ),
]
Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Folder that tell fit wrote.", show_default=False),
]

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="A,B",
        help="Cluster by these columns only.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="A,B",
        help="Leave these columns out.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COLUMN",
        help="Column with known classes: never clustered, only used to score the result.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME:TYPE",
        help="What a column is to be: number, log, robust, plain (not scaled), category, boolean, "
        "date or drop. May be given again.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
Prepare = Annotated[
    bool,
    typer.Option(
        "--prepare/--no-prepare",
        help="Learn what each column of a table is, fill gaps, and let numbers and categories "
        "weigh alike; or take all columns as the numbers they are.",
        rich_help_panel=_DATA,
    ),
]
Gaps = Annotated[
    Literal["fill", "drop"],
    typer.Option(
        "--gaps",
        help="Fill missing values with the median or the most common value, or drop such rows.",
        rich_help_panel=_DATA,
    ),
]
ImageSize = Annotated[
    int | None,
    typer.Option(
        "--image-size",
        metavar="PIXELS",
        min=1,
        help="Scale and crop the images of a folder to this height and width.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]

Clusters = Annotated[
    int,
    typer.Option(
        "--clusters",
        "-k",
        metavar="K",
        min=1,
        help="Number of clusters.",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
ClustersOrAuto = Annotated[
    int | None,
    typer.Option(
        "--clusters",
        "-k",
        metavar="K",
        min=1,
        help="Number of clusters. Without it the number is chosen: see [bold]tell choose[/].",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
MaxClusters = Annotated[
    int | None,
    typer.Option(
        "--max",
        metavar="K",
        min=2,
        help="The largest number of clusters that is tried. Without it 20, and more as long as "
        "more clusters still pay.",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
Geometry = Annotated[
    Literal["sphere", "euclidean"] | None,
    typer.Option(
        "--geometry",
        help="sphere: the direction of a row counts; euclidean: its size counts too.",
        rich_help_panel=_MODEL,
        show_default="euclidean for tables, else sphere",
    ),
]
Standardize = Annotated[
    bool,
    typer.Option(
        "--standardize",
        help="Bring every column of numbers to mean 0 and deviation 1, also where a logarithm or "
        "quartiles would suit it better. Centres are still shown in the units of your data.",
        rich_help_panel=_MODEL,
    ),
]
Restarts = Annotated[
    int | None,
    typer.Option(
        "--n-init",
        metavar="N",
        min=1,
        help="Restarts; the one with the smallest loss wins.",
        rich_help_panel=_MODEL,
        show_default="the estimator's own",
    ),
]
HalfLife = Annotated[
    float | None,
    typer.Option(
        "--half-life",
        metavar="ROWS",
        help="For streams that drift: after so many rows, an old row counts half.",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
Trim = Annotated[
    str | None,
    typer.Option(
        "--trim",
        metavar="SHARE",
        help="Outliers have no say: leave out this share of the rows, such as 2% or 0.02, that the "
        "centres serve worst (and, in a choice of -k, that lies farthest from all others).",
        rich_help_panel=_MODEL,
        show_default=False,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        max=2**32 - 1,
        help="The same seed gives the same clusters.",
        rich_help_panel=_MODEL,
    ),
]
Deep = Annotated[
    bool,
    typer.Option(
        "--deep",
        help="Learn features with an autoencoder while clustering, for images and raw signals; "
        "not for tables with categories.",
        rich_help_panel=_MODEL,
    ),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="tell|distil|paper",
        help="With --deep: a start, views and the paper's objective, the start alone, or the "
        "published procedure.",
        rich_help_panel=_MODEL,
        show_default="tell",
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--start",
        metavar="graph|k-means++|random",
        help="With --deep: where the paper's objective begins.",
        rich_help_panel=_MODEL,
        show_default="graph",
    ),
]
Augment = Annotated[
    str | None,
    typer.Option(
        "--augment",
        metavar="NAMES",
        help="With --deep: what may happen to an image without changing its cluster: affine, crop, "
        "elastic, flip, jitter, with commas between.",
        rich_help_panel=_MODEL,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        help="With --deep: restarts that run side by side; -1 for all cores.",
        rich_help_panel=_MODEL,
        show_default="1",
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="With --deep: folder from which an interrupted fit goes on.",
        rich_help_panel=_MODEL,
    ),
]

Memory = Annotated[
    str,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="What rows and all that is computed for them may take, such as 500MB or 2GB; the "
        "program itself takes another half a gigabyte. Larger files are read in parts.",
        rich_help_panel=_DATA,
    ),
]

Passes = Annotated[
    int | None,
    typer.Option(
        "--passes",
        metavar="N",
        min=0,
        help="Most steps on all rows, after those on a sample of a large file.",
        rich_help_panel=_MODEL,
        show_default="where a step promises something",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="Processes that read the rows and take every step together, on Ray.",
        rich_help_panel="Workers",
        show_default="this process alone",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="A running Ray cluster; [bold]auto[/] finds the one of this machine.",
        rich_help_panel="Workers",
        show_default="one started for this run",
    ),
]

Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON document and nothing else.", rich_help_panel=_OUTPUT
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress bar.", rich_help_panel=_OUTPUT),
]


def share(option: str, text: str | None) -> float | None:
    """A share of the rows: "1%" or "0.01", or none.

    >>> share("--reject", "2.5%"), share("--reject", "0.01"), share("--reject", None)
    (0.025, 0.01, None)
    """
    from tell.exceptions import ParameterError

    if text is None:
        return None
    number = text.strip()
    try:
        part = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        part = -1.0
    if not 0 < part < 1:
        raise ParameterError(
            f"{option} must be a share of the rows such as 1% or 0.01, got {text!r}"
        )
    return part


def names(values: list[str] | None) -> list[str] | None:
    """Split what was given to --columns or --drop; a name with a comma can be quoted.

    >>> names(["a,b", '"c,d"'])
    ['a', 'b', 'c,d']
    >>> names([""])  # the column of an index that was written without a name
    ['']
    """
    if not values:
        return None
    rows = csv.reader(values, skipinitialspace=True)
    return [name.strip() for row in rows for name in (row or [""])]


def types(values: list[str] | None) -> dict[str, str]:
    """Read what was given to --column: a name, a colon, a type.

    >>> types(["income:log", "a:b:category"])
    {'income': 'log', 'a:b': 'category'}
    """
    from tell.exceptions import ParameterError

    found: dict[str, str] = {}
    for value in values or []:
        name, colon, wish = value.rpartition(":")
        if not colon:
            raise ParameterError(
                f"--column must be NAME:TYPE such as income:log, got {value!r}; to choose columns "
                "use --columns"
            )
        found[name] = wish
    return found


def cluster_names(values: list[str]) -> dict[int, str]:
    """Read what was given to --name: a number, an equals sign, a name.

    >>> cluster_names(["2=Families", "0=Young & mobile"])
    {2: 'Families', 0: 'Young & mobile'}
    """
    from tell.exceptions import ParameterError

    found: dict[int, str] = {}
    for value in values:
        number, mark, name = value.partition("=")
        if not mark or not number.strip().isdigit():
            raise ParameterError(
                f"--name must be a cluster's number and its name such as 2=Families, got {value!r}"
            )
        found[int(number)] = name
    return found


def cluster_pair(value: str) -> tuple[int, int]:
    """Read what was given to --contrast: two numbers of clusters.

    >>> cluster_pair("0,2")
    (0, 2)
    """
    from tell.exceptions import ParameterError

    first, mark, second = (part.strip() for part in value.partition(","))
    if not mark or not first.isdigit() or not second.isdigit():
        raise ParameterError(f"--contrast must be two clusters such as 0,2, got {value!r}")
    return int(first), int(second)


Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Run the code that the model names (networks of somebody's own). Only for models "
        "from people whose programs you would run.",
        rich_help_panel=_MODEL,
    ),
]
