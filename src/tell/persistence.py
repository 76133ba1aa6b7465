"""A model is a folder of two files: `model.json` and the tensors file it names; never a pickle.

A tensors file is named by its own SHA-256 and never changed. Writing a model adds the new tensors
file, replaces `model.json` in one atomic rename and only then removes the old tensors: whenever
the process or the machine dies, `model.json` names a whole file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor

from tell.exceptions import ModelFileError
from tell.files import write_whole

FORMAT = "tell-model"
FORMAT_VERSION = 1
_DESCRIPTION = "model.json"
_LOOKS = 10  # at a folder that somebody else writes; a save takes far longer than a look


class SavedModel(NamedTuple):
    """What a model folder holds."""

    kind: str  # name of the estimator
    config: dict[str, Any]  # plain JSON
    tensors: dict[str, Tensor]


def _plain(value: Any) -> Any:
    """Turn a number of NumPy or a device of torch into what JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.device):
        return str(value)
    raise TypeError(f"metadata and options must be JSON, got {type(value).__name__}")


def write_model(
    folder: str | os.PathLike[str], kind: str, config: dict[str, Any], tensors: dict[str, Tensor]
) -> None:
    """Write a model folder; a crash at any moment leaves the old model or the new one whole.

    A folder with anything but a model in it is refused: it is somebody's work.
    """
    place = Path(folder)
    _check_replaceable(place)
    payload = dump_tensors({name: tensor.contiguous() for name, tensor in tensors.items()})
    checksum = hashlib.sha256(payload).hexdigest()
    description = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "kind": kind,
        "sha256": checksum,
        "config": config,
    }
    text = json.dumps(description, indent=1, default=_plain)
    place.mkdir(parents=True, exist_ok=True)
    tensors_file = place / _tensors_name(checksum)
    write_whole(tensors_file, payload)
    write_whole(place / _DESCRIPTION, text.encode())
    for stale in set(place.glob(_tensors_name("*"))) - {tensors_file}:
        stale.unlink()


def read_model(folder: str | os.PathLike[str]) -> SavedModel:
    """Read a model folder, checking format, version and checksum.

    Raises
    ------
    ModelFileError
        If the folder is missing, foreign, damaged or of a newer format.
    """
    description, file, payload = _read_files(Path(folder))
    if hashlib.sha256(payload).hexdigest() != description["sha256"]:
        raise ModelFileError(
            f"{file} is damaged: its checksum differs; restore the folder or fit again"
        )
    try:
        tensors = load_tensors(payload)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelFileError(f"{file}: cannot be read ({error}); fit again") from None
    return SavedModel(description["kind"], description["config"], tensors)


def _read_files(place: Path, looks: int = _LOOKS) -> tuple[dict[str, Any], Path, bytes]:
    """The description, its tensors file and what that holds.

    A save in another process may remove the tensors between the two reads. Then the description
    names others by now: look again.
    """
    description = _read_description(place)
    file = place / _tensors_name(description["sha256"])
    try:
        return description, file, file.read_bytes()
    except OSError as error:
        if isinstance(error, FileNotFoundError) and looks > 1:
            return _read_files(place, looks - 1)
        raise ModelFileError(f"{file}: cannot be read ({error.strerror}); fit again") from None


def _read_description(place: Path) -> dict[str, Any]:
    try:
        found = json.loads((place / _DESCRIPTION).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        lack = "it is a file" if place.is_file() else f"it has no {_DESCRIPTION}"
        raise ModelFileError(
            f"{place} is not a model folder: {lack}; write one with model.save(folder) or "
            "`tell fit --out`"
        ) from None
    except OSError as error:
        raise ModelFileError(f"{place}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise ModelFileError(f"{place}: {_DESCRIPTION} is damaged: it is not JSON") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ModelFileError(f"{place}: {_DESCRIPTION} was not written by tell")
    if not isinstance(found.get("version"), int) or found["version"] > FORMAT_VERSION:
        raise ModelFileError(
            f"{place}: its format version {found.get('version')} is newer than "
            f"{FORMAT_VERSION}, the newest this version reads; upgrade tell-clustering"
        )
    right = {  # what the rest of this file relies on
        "kind": isinstance(found.get("kind"), str),
        "sha256": re.fullmatch("[0-9a-f]{64}", str(found.get("sha256"))),
        "config": isinstance(found.get("config"), dict),
    }
    for key, fine in right.items():
        if not fine:
            raise ModelFileError(f"{place}: {_DESCRIPTION} is damaged: {key!r} is missing or wrong")
    return found


def _tensors_name(checksum: str) -> str:
    return f"tensors-{checksum[:16]}.safetensors"


def _check_replaceable(place: Path) -> None:
    if place.is_dir():
        pattern = re.compile(r"model\.json|tensors-\w+\.safetensors|\..*\.part")
        strangers = [c.name for c in place.iterdir() if not pattern.fullmatch(c.name)]
        if strangers:
            raise ModelFileError(
                f"{place} holds other files ({', '.join(sorted(strangers)[:3])}); "
                "choose an empty or new folder"
            )
    elif place.exists():
        raise ModelFileError(f"{place} is a file; choose a folder for the model")
