"""Take over results of another machine, or of the older layout with one JSON file per run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

from tell.exceptions import InputError
from tell.reproduce.result_lines import Record, add_lines, identity, read_lines
from tell.reproduce.spec import Scale


def import_results(source: Path, folder: Path, scale: Scale) -> list[str]:
    """Add the finished results of one scale in `source` that `folder` lacks, with their snapshots.

    Returns
    -------
    list of str
        The places of what was added, e.g. "cpu/mnist/tell-fcn/seed-0".
    """
    found = [*_lines(source / scale.name), *_files(source / scale.name)]
    done = [record for record in found if record.get("status") == "done"]
    if not done:
        raise InputError(
            f"--import must name a folder with results of the scale {scale.name}, got {source}; "
            f"they lie in {scale.name}/DATA.jsonl, formerly {scale.name}/DATA/METHOD/seed-N.json"
        )
    added = []
    for record in done:
        name, seed, _ = key = identity(record)
        place = f"{scale.name}/{record['run']['data']}"
        file = folder / f"{place}.jsonl"
        if read_lines(file).get(key, {}).get("status") == "done":
            continue
        snapshots = f"{place}/{name}/seed-{seed}.snapshots.npz"
        if (source / snapshots).is_file():
            (folder / snapshots).parent.mkdir(parents=True, exist_ok=True)
            copyfile(source / snapshots, folder / snapshots)
        add_lines(file, [record])
        added.append(f"{place}/{name}/seed-{seed}")
    return added


def _lines(folder: Path) -> Iterator[Record]:
    for file in sorted(folder.glob("*.jsonl")):
        yield from read_lines(file).values()


def _files(folder: Path) -> Iterator[Record]:
    """Results of the older layout; what was called looks there are evaluations now."""
    for file in sorted(folder.glob("*/*/seed-*.json")):
        try:
            record = json.loads(file.read_bytes())
            identity(record)
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file} must hold a whole result, got {error!r}") from error
        for line in record.get("history", ()):
            if "looks" in line:
                line["evaluations"] = line.pop("looks")
        yield record
