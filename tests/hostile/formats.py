"""Every format that the project reads: a whole example, and what reading one means."""

from __future__ import annotations

import gzip
import io
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image

import tell
from tell import TELL, DeepTELL, persistence
from tell.core.checkpoint import read_checkpoint, write_checkpoint
from tell.data.cifar import pickled_images
from tell.data.idx import read_idx
from tell.data.preparation import Preparation
from tell.data.sources import open_source
from tell.data.survey import learn
from tell.data.table_preparation import open_table
from tell.estimators import DistilRecipe

from ..data.test_parsers import cifar_bytes
from .damage import damaged, lied

ROWS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
MOST_LEARNED = 200  # rows of a damaged file that a model is shown


@dataclass(frozen=True)
class Format:
    """A file in `folder` that is damaged by `hurt` and read by `read`."""

    name: str
    make: Callable[[Path], Path]
    read: Callable[[Path], object]
    hurt: Callable[[random.Random, bytes], bytes] = damaged


def _written(name: str, raw: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(raw)
        return folder / name

    return make


def _read_rows(path: Path) -> None:
    source = open_source(str(path))
    for chunk in source.chunks():
        assert np.isfinite(chunk.X).all()


def _read_folder(path: Path) -> None:
    _read_rows(path.parent)


def _table() -> pa.Table:
    columns = {f"c{i}": ROWS[:, i].astype(np.float64) for i in range(4)}
    return pa.table({**columns, "kind": ["ä", "b", None] * 20})


def _csv() -> bytes:
    lines = ["a,b,c,d"] + [",".join(f"{v:.4f}" for v in row) for row in ROWS]
    return ("\n".join(lines) + "\n").encode()


def _ndjson() -> bytes:
    lines = [json.dumps({f"c{i}": float(v) for i, v in enumerate(row)}) for row in ROWS]
    return ("\n".join(lines) + "\n").encode()


def _saved(save: Callable[[Any], object]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def _npz(save: Any) -> bytes:
    labels = np.arange(len(ROWS)) % 3
    return _saved(lambda file: save(file, X=ROWS, y=labels))


def _png() -> bytes:
    pixels = (np.arange(64).reshape(8, 8) * 4).astype(np.uint8)
    return _saved(lambda file: Image.fromarray(pixels).save(file, format="PNG"))


def _idx() -> bytes:
    return b"\0\0\x08\x03" + np.array([5, 4, 4], ">u4").tobytes() + bytes(range(80))


def _cifar() -> bytes:
    images = (np.arange(2 * 3072) % 251).astype(np.uint8).reshape(2, 3072)
    return cifar_bytes(images, [0, 1])


def _tell(folder: Path) -> Path:
    model = TELL(3, standardize=True, random_state=0).fit(ROWS).partial_fit(ROWS)
    model.save(folder / "model", metadata={"rows_seen": 120, "data": "rows"})
    return folder / "model" / "model.json"


def _young(folder: Path) -> Path:
    """A model that still keeps the first rows of its stream."""
    TELL(3, random_state=0).partial_fit(ROWS[:5]).save(folder / "model")
    return folder / "model" / "model.json"


def _deep(folder: Path) -> Path:
    recipe = DistilRecipe(epochs=1, n_init=1)
    model = DeepTELL(2, recipe=recipe, random_state=0).fit(ROWS)
    model.partial_fit(ROWS[:9]).save(folder / "model")
    return folder / "model" / "model.json"


def _tensors_of(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
    return lambda folder: next(make(folder).parent.glob("*.safetensors"))


def _use(path: Path) -> None:
    """Load a model and do with it what users do."""
    model = tell.load(path.parent)
    model.predict(ROWS[:7])
    model.partial_fit(ROWS[:7])
    model.save(path.parent.with_name("saved"))
    shutil.rmtree(path.parent.with_name("saved"))


def _signed_lie(rng: random.Random, raw: bytes) -> bytes:
    """A liar states the right checksum."""
    content = json.loads(raw)
    content["config"] = lied(rng, content["config"])
    content["checksum"] = persistence._checksum(content)
    return json.dumps(content).encode()


def _checkpoint(folder: Path) -> Path:
    tensors = {"weight": torch.arange(12.0).view(3, 4), "step": torch.tensor(3)}
    write_checkpoint(folder / "c.safetensors", tensors, {"epoch": 1, "history": [{"loss": 0.5}]})
    return folder / "c.safetensors"


def _preparation(folder: Path) -> Path:
    pq.write_table(_table(), folder / "table.parquet")
    source = open_source(str(folder / "table.parquet"))
    text = json.dumps(learn(source).to_json())  # type: ignore[arg-type]
    (folder / "preparation.json").write_text(text)
    return folder / "preparation.json"


def _prepare(path: Path) -> None:
    preparation = Preparation.from_json(json.loads(path.read_bytes()))
    source = open_source(str(path.with_name("table.parquet")))
    for _ in preparation.apply(source).chunks():  # type: ignore[arg-type]
        pass


def _mixed(encoding: str) -> bytes:
    """Numbers with gaps and decimal commas, dates, truths, categories and texts."""
    lines = ["nr;income;day;member;country;word"]
    lines += [
        f"{i};{'n.a.' if i % 7 == 0 else f'{v:.2f}'.replace('.', ',')};2024-0{i % 9 + 1}-17;"
        f"{'yes' if i % 2 else 'no'};{'ÄBC'[i % 3]};word {i}"
        for i, v in enumerate(ROWS[:, 0])
    ]
    return ("\r\n".join(lines) + "\r\n").encode(encoding)


def _xlsx() -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    for row in [
        ["a", "b", "kind"],
        *([float(a), float(b), "xyz"[i % 3]] for i, (a, b) in enumerate(ROWS[:, :2])),
    ]:
        book.active.append(row)
    return _saved(book.save)


def _read_mixed(path: Path) -> None:
    """Read a table as `fit` does: look at every cell, then encode."""
    source = open_table(str(path))
    for chunk in learn(source).apply(source).chunks():
        assert np.isfinite(chunk.X).all()


def _lied_json(rng: random.Random, raw: bytes) -> bytes:
    return json.dumps(lied(rng, json.loads(raw))).encode()


FORMATS = (
    Format("csv", _written("a.csv", _csv()), _read_rows),
    Format("csv.gz", _written("a.csv.gz", gzip.compress(_csv(), mtime=0)), _read_rows),
    Format("ndjson", _written("a.ndjson", _ndjson()), _read_rows),
    Format(
        "parquet",
        _written("a.parquet", _saved(lambda f: pq.write_table(_table().drop_columns("kind"), f))),
        _read_rows,
    ),
    Format("table csv", _written("a.csv", _mixed("utf-8")), _read_mixed),
    Format("table utf-16", _written("a.csv", _mixed("utf-16")), _read_mixed),
    Format(
        "table parquet",
        _written("a.parquet", _saved(lambda f: pq.write_table(_table(), f))),
        _read_mixed,
    ),
    Format("xlsx", _written("a.xlsx", _xlsx()), _read_mixed),
    Format(
        "json",
        _written("a.json", b"[" + b",".join(_ndjson().split(b"\n")[:-1]) + b"]"),
        _read_mixed,
    ),
    Format("npy", _written("a.npy", _saved(lambda f: np.save(f, ROWS))), _read_rows),
    Format("npz", _written("a.npz", _npz(np.savez)), _read_rows),
    Format("npz compressed", _written("a.npz", _npz(np.savez_compressed)), _read_rows),
    Format("png", _written("a.png", _png()), _read_folder),
    Format("idx", _written("a-idx", _idx()), read_idx),
    Format("idx.gz", _written("a-idx.gz", gzip.compress(_idx(), mtime=0)), read_idx),
    Format("cifar", _written("batch", _cifar()), lambda path: pickled_images(path, b"labels")),
    Format("model.json", _tell, _use),
    Format("model.json lies", _tell, _use, _signed_lie),
    Format("young model.json lies", _young, _use, _signed_lie),
    Format("tensors", _tensors_of(_tell), _use),
    Format("deep model.json lies", _deep, _use, _signed_lie),
    Format("checkpoint", _checkpoint, read_checkpoint),
    Format("preparation lies", _preparation, _prepare, _lied_json),
)
