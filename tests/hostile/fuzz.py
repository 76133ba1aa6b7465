"""Coverage-guided fuzzing of the parsers written here: `make fuzz`, which installs atheris apart.

Every input goes to one parser, chosen by its first byte. Errors of `tell`'s own are answers;
anything else is a finding, which atheris writes to a file.
"""

from __future__ import annotations

import io
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["tell"]):
    from tell import persistence
    from tell.data.chunks import Choice
    from tell.data.cifar import pickled_images
    from tell.data.csv_files import Layout
    from tell.data.idx import read_idx
    from tell.data.streams import LineSource
    from tell.exceptions import TellError

SCRATCH = Path(tempfile.mkdtemp())


def _file(raw: bytes, name: str) -> Path:
    path = SCRATCH / name
    path.write_bytes(raw)
    return path


def _lines(raw: bytes) -> None:
    source = LineSource(
        lambda: io.BufferedReader(io.BytesIO(raw)), "fuzz", Choice(), 64, rereadable=True
    )
    for _ in source.chunks():
        pass


PARSERS = (
    _lines,
    lambda raw: read_idx(_file(raw, "a-idx")),
    lambda raw: pickled_images(_file(raw, "batch"), b"labels"),
    lambda raw: Layout.of_line(raw.decode(errors="replace"), "fuzz"),
    lambda raw: persistence._read_description(_file(raw, "model.json").parent),
)


def one(raw: bytes) -> None:
    """Give one input to one parser."""
    if not raw:
        return
    with suppress(TellError):
        PARSERS[raw[0] % len(PARSERS)](raw[1:])


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
