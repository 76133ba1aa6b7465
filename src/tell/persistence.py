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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from tell.exceptions import ModelChangedError, ModelFileError
from tell.files import LOCK, locked, write_whole

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "tell-model"
FORMAT_VERSION = 2  # 1 had no checksum of the description
_DESCRIPTION = "model.json"
JOURNAL = "stream.json"  # the log of what a stream did to the model; see `tell.runtime.journal`
LEARNER = ".learning"  # locked by the service that learns into the folder
CARD = "README.md"  # the model card, where one was put beside the model
_PART = re.compile(r"\..*\.part")
_LAID_OUT = 3  # levels of the description that people read line by line
_LOOKS = 10  # at a folder that somebody else writes; a save takes far longer than a look


class SavedModel(NamedTuple):
    """What a model folder holds."""

    kind: str  # name of the estimator
    config: dict[str, Any]  # plain JSON
    tensors: dict[str, Tensor]
    stamp: str = ""  # checksum of the description, which has that of the tensors in it


class PackedModel(NamedTuple):
    """A model folder that was read and found whole; its tensors are still as in their file.

    Who only labels rows opens them as arrays, without torch, which takes longer to load than the
    rows to be labelled.
    """

    kind: str
    config: dict[str, Any]
    stamp: str
    file: Path  # of the tensors
    payload: bytes  # what it holds

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The tensors as arrays."""
        from safetensors.numpy import load

        return self._opened(load)

    def opened(self) -> SavedModel:
        """The model with its tensors."""
        from safetensors.torch import load

        return SavedModel(self.kind, self.config, self._opened(load), self.stamp)

    def _opened(self, load: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
        try:
            return load(self.payload)
        except (SafetensorError, ValueError, KeyError) as error:
            raise ModelFileError(f"{self.file}: cannot be read ({error}); fit again") from None


def _plain(value: Any) -> Any:
    """Turn a number of NumPy or a device of torch into what JSON knows."""
    import torch

    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.device):
        return str(value)
    raise TypeError(f"metadata and options must be JSON, got {type(value).__name__}")


def write_model(
    folder: str | os.PathLike[str],
    kind: str,
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    *,
    instead_of: str | None = None,
) -> str:
    """Write a model folder; a crash at any moment leaves the old model or the new one whole.

    A folder with anything but a model in it is refused: it is somebody's work. Several writers
    take turns. With `instead_of`, the stamp of a model, a folder that holds another model by now
    is refused.

    Returns
    -------
    str
        The stamp of the new model, by which it is recognised.
    """
    from safetensors.torch import save as dump_tensors

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
    # As it will be read: keys become text and numbers of NumPy plain ones.
    description = json.loads(json.dumps(description, default=_plain))
    stamp = description["checksum"] = _checksum(description)
    text = _laid_out(description, _LAID_OUT)
    with _new_folder(place), _taking_turns(place):
        if instead_of is not None:
            _check_unchanged(place, instead_of)
        tensors_file = place / _tensors_name(checksum)
        with _gone_unless_named(tensors_file, stamp):
            write_whole(tensors_file, payload)
            write_whole(place / _DESCRIPTION, text.encode())
        _remove_stale(place, tensors_file)
        if instead_of is None:  # another model: what happened to the last one is not its past
            (place / JOURNAL).unlink(missing_ok=True)
    return stamp


def _laid_out(value: Any, depth: int, margin: str = "") -> str:
    """JSON with the entries of so many levels of objects on lines of their own.

    `json` itself would break every list into lines, too, and that by Python's slow way.

    >>> print(_laid_out({"a": {"b": [1, {"c": 2}]}, "d": {}}, 2))
    {
     "a": {
      "b": [1, {"c": 2}]
     },
     "d": {}
    }
    """
    if not (depth and value and isinstance(value, dict)):
        return json.dumps(value)
    inner = f"{margin} "
    lines = (
        f"{inner}{json.dumps(key)}: {_laid_out(item, depth - 1, inner)}"
        for key, item in value.items()
    )
    return "{\n" + ",\n".join(lines) + f"\n{margin}}}"


def save_as(model: object, folder: str | os.PathLike[str], saved: SavedModel) -> None:
    """Write what a model holds, unless its folder was changed by somebody else meanwhile.

    Raises
    ------
    ModelChangedError
        If the model came from this folder, or was saved there, and another one is there by now.
    """
    place = str(Path(folder).resolve())
    known = vars(model).get("_home", (None, None))
    instead_of = known[1] if known[0] == place else None
    stamp = write_model(folder, saved.kind, saved.config, saved.tensors, instead_of=instead_of)
    vars(model)["_home"] = (place, stamp)


def comes_from(model: object, folder: str | os.PathLike[str], saved: SavedModel) -> None:
    """Remember where a model was read, for the next `save_as`."""
    vars(model)["_home"] = (str(Path(folder).resolve()), saved.stamp)


@contextmanager
def _new_folder(place: Path) -> Iterator[None]:
    """Make the folder; if nothing comes into it, as on a full disk, it goes again."""
    made = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if made:
            with suppress(OSError):  # somebody else's model is in it by now
                place.rmdir()
        raise


@contextmanager
def _gone_unless_named(tensors_file: Path, stamp: str) -> Iterator[None]:
    """Take new tensors away again if their description could not be written, as on a full disk."""
    known = tensors_file.exists()
    try:
        yield
    except BaseException:
        with suppress(OSError, ModelFileError):
            if not known and _stamp(tensors_file.parent) != stamp:
                tensors_file.unlink()
        raise


def _stamp(place: Path) -> str | None:
    """The stamp of the model that is there; None if there is none."""
    if not (place / _DESCRIPTION).exists():
        return None
    return str(_read_description(place)["checksum"])


@contextmanager
def _taking_turns(place: Path) -> Iterator[None]:
    with ExitStack() as turn:
        try:
            turn.enter_context(locked(place))
        except TimeoutError as error:
            raise ModelFileError(
                f"{place}: {error.strerror}; wait for it or end it, then save again"
            ) from None
        yield


def _check_unchanged(place: Path, stamp: str) -> None:
    try:
        found = _read_description(place)["checksum"]
    except ModelFileError:
        return  # gone or unreadable: nothing of anybody's is lost
    if found != stamp:
        raise ModelChangedError(
            f"{place} was changed by somebody else since this model was loaded from it or saved "
            "there; load it again and repeat what you did, or save to another folder"
        )


def _remove_stale(place: Path, tensors_file: Path) -> None:
    """Remove what no description names: older tensors, and parts of writers that died.

    The lock keeps others out, so every part is a dead one's.
    """
    stale = set(place.glob(_tensors_name("*"))) - {tensors_file}
    stale |= {path for path in place.iterdir() if _PART.fullmatch(path.name)}
    for path in stale:
        path.unlink(missing_ok=True)


def read_model(folder: str | os.PathLike[str]) -> SavedModel:
    """Read a model folder, checking format, version and checksum.

    Raises
    ------
    ModelFileError
        If the folder is missing, foreign, damaged or of a newer format.
    """
    return read_packed(folder).opened()


def read_packed(folder: str | os.PathLike[str]) -> PackedModel:
    """As `read_model`, with the tensors left as they are in their file."""
    description, file, payload = _read_files(Path(folder))
    if hashlib.sha256(payload).hexdigest() != description["sha256"]:
        raise ModelFileError(
            f"{file} is damaged: its checksum differs; restore the folder or fit again"
        )
    kind, config, stamp = (description[key] for key in ("kind", "config", "checksum"))
    return PackedModel(kind, config, stamp, file, payload)


def _checksum(description: dict[str, Any]) -> str:
    """The checksum of a description, whatever its layout in the file."""
    content = {key: value for key, value in description.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


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
    _check_version(found, place)
    _check_content(found, place)
    return found


def _check_version(found: dict[str, Any], place: Path) -> None:
    version = found.get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{place}: its format version {version} is newer than {FORMAT_VERSION}, the newest "
            "this version reads; upgrade tell-clustering"
        )
    if version < FORMAT_VERSION:
        found.setdefault("checksum", _checksum(found))


def _check_content(found: dict[str, Any], place: Path) -> None:
    """Check what the rest of this file relies on, then that nothing else was changed."""
    right = {
        "kind": isinstance(found.get("kind"), str),
        "sha256": re.fullmatch("[0-9a-f]{64}", str(found.get("sha256"))),
        "config": isinstance(found.get("config"), dict),
        "checksum": re.fullmatch("[0-9a-f]{64}", str(found.get("checksum"))),
    }
    for key, fine in right.items():
        if not fine:
            raise ModelFileError(f"{place}: {_DESCRIPTION} is damaged: {key!r} is missing or wrong")
    try:
        whole = found["checksum"] == _checksum(found)
    except RecursionError:  # nested deeper than anything that is written
        whole = False
    if not whole:
        raise ModelFileError(
            f"{place}: {_DESCRIPTION} is damaged: its checksum differs; restore the folder or fit "
            "again"
        )


def _tensors_name(checksum: str) -> str:
    return f"tensors-{checksum[:16]}.safetensors"


def check_place(folder: str | os.PathLike[str]) -> None:
    """Refuse, before hours of work and not after them, a folder that no model can be written to.

    What is there decides: the folder, or the nearest one above it. Nothing is left behind.
    """
    place = Path(folder)
    _check_replaceable(place)
    above = (p for p in (place, *place.parents) if p.exists() or p.is_symlink())
    nearest = next(above, place)
    try:
        with TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ModelFileError(
            f"{place} must be a folder that can be written, got {reason!r} at {nearest}; choose "
            "another folder for the model"
        ) from error


def _check_replaceable(place: Path) -> None:
    if place.is_dir():
        pattern = re.compile(rf"model\.json|tensors-\w+\.safetensors|{_PART.pattern}")
        ours = {LOCK, JOURNAL, LEARNER, CARD}
        strangers = [
            c.name for c in place.iterdir() if c.name not in ours and not pattern.fullmatch(c.name)
        ]
        if strangers:
            raise ModelFileError(
                f"{place} holds other files ({', '.join(sorted(strangers)[:3])}); "
                "choose an empty or new folder"
            )
    elif place.exists():
        raise ModelFileError(f"{place} is a file; choose a folder for the model")
