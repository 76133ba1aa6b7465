"""Things of the user's own by their import path, "package.module:name"."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tell.exceptions import ModelFileError


def import_path(thing: Any) -> str:
    """Return the path of a class or function.

    >>> import_path(ModelFileError)
    'tell.exceptions:ModelFileError'
    """
    return f"{thing.__module__}:{thing.__qualname__}"


def is_import_path(thing: object) -> bool:
    """Say whether this is 'package.module:name', and not a text of layers, which has brackets."""
    return isinstance(thing, str) and ":" in thing and "(" not in thing


def imported(path: str) -> Any:
    """Return what is at a path.

    >>> imported("tell.exceptions:ModelFileError")
    <class 'tell.exceptions.ModelFileError'>
    """
    place, _, name = path.partition(":")
    try:
        found: Any = import_module(place)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ModelFileError(
            f"{path!r} must be importable, got {type(error).__name__}: {error}; install the "
            "package that has it or put it on PYTHONPATH"
        ) from error
    return found
