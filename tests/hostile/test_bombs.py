"""Small files that ask for much memory are refused before it is taken; streams lose no row."""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import sys
import textwrap
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import tell
from tell import TELL
from tell.data.sources import open_source
from tell.exceptions import InputError

from .test_writers import environment

MEGABYTE = 1 << 20


def zeros_gz(path: Path, head: bytes, megabytes: int) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head)
        for _ in range(megabytes):
            file.write(b"1" * MEGABYTE)


def npz(path: Path, **members: tuple[tuple[int, ...], str, int]) -> None:
    """Write members of (shape, dtype, megabytes of zeros) without having them in memory."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, (shape, dtype, megabytes) in members.items():
            header = io.BytesIO()
            description = {"descr": dtype, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(header, description)  # type: ignore[arg-type]
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(header.getvalue())
                for _ in range(megabytes):
                    member.write(bytes(MEGABYTE))


def png(path: Path, side: int) -> None:
    def part(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    packer = zlib.compressobj(1)
    pixels = b"".join(packer.compress(bytes(side + 1)) for _ in range(side)) + packer.flush()
    whole = part(b"IHDR", header) + part(b"IDAT", pixels) + part(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + whole)


READ = """
    import resource, sys
    from pathlib import Path
    import numpy as np, pyarrow.csv, PIL.Image
    from tell.data.sources import open_source
    from tell.exceptions import InputError
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + 3_000_000_000  # of addresses, which threads reserve
    resource.setrlimit(resource.RLIMIT_AS, (most, most))

    def megabytes(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

    before = megabytes("VmRSS")
    try:
        for chunk in open_source(sys.argv[1]).chunks():
            pass
    except InputError as error:
        print(error)
        print("took", round(megabytes("VmHWM") - before))
"""


@pytest.mark.parametrize("kind", ["header", "line", "row", "labels", "texts", "pixels", "sheet"])
def test_bombs_are_refused_within_memory_and_with_a_remedy(tmp_path: Path, kind: str) -> None:
    names = {"header": "a.csv.gz", "line": "a.csv.gz", "pixels": "p", "sheet": "a.xlsx"}
    path = tmp_path / names.get(kind, "a.npz")
    if kind == "header":
        zeros_gz(path, b"", 1024)
    elif kind == "line":
        zeros_gz(path, b"a,b\n1,2\n", 1024)
    elif kind == "row":
        npz(path, X=((1, 128 * MEGABYTE), "<f8", 1024))
    elif kind == "labels":
        npz(path, X=((2, 3), "<f4", 1), y=((128 * MEGABYTE,), "<i8", 1024))
    elif kind == "texts":
        npz(path, X=((2, 3), "<f4", 1), y=((2,), f"<U{128 * MEGABYTE}", 1024))
    elif kind == "sheet":
        npz(path, X=((2, 3), "<f4", 1024))  # any archive: its size is known before it is unpacked
    else:
        path.mkdir()
        png(path / "a.png", 13_000)
    command = [sys.executable, "-c", textwrap.dedent(READ), str(path)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert result.returncode == 0, result.stderr
    message, took = result.stdout.rsplit("took", 1)
    assert "TELL_MAX_BYTES" in message
    assert int(took) < 500


def test_the_limit_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 1000), np.float32))
    monkeypatch.setenv("TELL_MAX_BYTES", "3999")
    with pytest.raises(InputError, match=r"a row takes 4,000 bytes.*3,999.*TELL_MAX_BYTES"):
        open_source(tmp_path / "a.npz")
    monkeypatch.setenv("TELL_MAX_BYTES", "4000")
    assert len(open_source(tmp_path / "a.npz").read().X) == 3


# --- streams -----------------------------------------------------------------------------------


def update(folder: Path, lines: list[str]) -> subprocess.CompletedProcess[str]:
    program = "import sys; from tell.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "update", str(folder), "-", "--json"]
    text = "\n".join(lines) + "\n"
    return subprocess.run(command, input=text, capture_output=True, text=True, env=environment())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    TELL(2, random_state=0).fit(rows).save(tmp_path / "model", metadata={"rows_seen": 60})
    return tmp_path / "model"


GOOD = ['{"0": 1.5, "1": 2}'] * 500


def test_whole_numbers_beyond_64_bits_are_numbers(folder: Path) -> None:
    result = update(folder, [*GOOD, f'{{"0": {2**63}, "1": {-(2**70)}}}', *GOOD])
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == 1001
    assert tell.load(folder)._state.seen == 1061


@pytest.mark.parametrize(
    "bad",
    [
        '{"0": 1, "1": "\\ud800"}',
        '{"0": 1' + "0" * 400 + ', "1": 2}',
        '{"0": ',
        '{"0": [], "1": {}}',
    ],
)
def test_rows_learned_before_a_bad_line_are_saved(folder: Path, bad: str) -> None:
    result = update(folder, [*GOOD, bad, *GOOD])
    assert result.returncode == 2
    assert "unexpected" not in result.stderr
    assert tell.load(folder)._state.seen == 560


def test_rows_are_saved_whatever_ends_the_reading(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tell.cli.update import learn_all
    from tell.data.streams import LineSource
    from tell.runtime.learner import Learning
    from tell.runtime.model_rows import open_like

    data = folder.parent / "rows.ndjson"
    data.write_text("\n".join(GOOD))
    model = tell.load(folder)
    source = open_like(model, str(data), chunk_rows=50)
    real = LineSource.chunks

    def failing(self: LineSource):
        for number, chunk in enumerate(real(self)):
            if number == 3:
                raise ZeroDivisionError
            yield chunk

    monkeypatch.setattr(LineSource, "chunks", failing)
    learning = Learning(model, folder, source, resume=False, score=False)
    with pytest.raises(ZeroDivisionError):
        learn_all(learning, source, save_rows=10**9, save_seconds=1e6, visible=False)
    assert tell.load(folder)._state.seen == 60 + 150
