"""Columns of a file that were not clustered: read beside the rows, to describe clusters by."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tell.exceptions import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TABLES = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")


def read_beside(data: str, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The columns `names` (n,) of a CSV or Parquet file, as they stand there; gaps are None."""
    if not names:
        return {}
    path = Path(data)
    if not path.is_file() or not path.name.lower().endswith(_TABLES):
        raise InputError(
            f"--profile and --id need a file of type {', '.join(_TABLES)}, got {data}; "
            "in Python, pass profile= and ids= to explain"
        )
    table = _read(path)
    for name in names:
        if name not in table.column_names:
            known = ", ".join(table.column_names[:12])
            raise InputError(f"{data}: there is no column {name!r}; it has {known}")
    return {name: table.column(name).to_pandas().to_numpy() for name in names}


def _read(path: Path) -> Any:
    if path.name.lower().endswith(".parquet"):
        from pyarrow import parquet

        return parquet.read_table(path)
    from pyarrow import csv

    mark = "\t" if ".tsv" in path.name.lower() else ","
    options = csv.ConvertOptions(strings_can_be_null=True)
    parsing = csv.ParseOptions(delimiter=mark, newlines_in_values=True)
    return csv.read_csv(path, convert_options=options, parse_options=parsing)
