"""Facts in the words of JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np


def as_plain(value: object) -> object:
    """Facts as JSON knows them: NaN and infinity become null, arrays become lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = [f for f in dataclasses.fields(value) if f.metadata.get("json", True)]
        return {f.name: as_plain(getattr(value, f.name)) for f in kept}
    if isinstance(value, np.ndarray):
        return as_plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): as_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return as_plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
