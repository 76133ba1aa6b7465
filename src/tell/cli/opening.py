"""Rows for a command: opened as its options say, or as the model learned them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tell.exceptions import InputError
from tell.runtime.model_rows import feature_names as feature_names
from tell.runtime.model_rows import kept as kept
from tell.runtime.model_rows import open_like as open_like

if TYPE_CHECKING:
    from tell.data.chunks import Chunk, Source
    from tell.data.table_preparation import TablePreparation


def open_new(
    data: str,
    *,
    columns: list[str] | None,
    drop: list[str] | None,
    label: str | None,
    image_size: int | None = None,
    prepare: TablePreparation | None = None,
) -> Source:
    """Open rows for a new model; a table is read through what is learned of it, if asked to."""
    from tell.data.sources import open_source
    from tell.data.table_preparation import held_table
    from tell.data.tables import TableSource

    source = open_source(data, columns=columns, drop=drop, label=label, image_size=image_size)
    if prepare is None:
        return source
    if not isinstance(source, TableSource):
        if prepare.types or prepare.gaps != "fill":
            raise InputError(
                f"{source.name}: --column and --gaps need a table with columns (CSV, Parquet), got "
                "an array; fill its gaps before saving it"
            )
        return source
    source = source if source.rereadable else held_table(source)
    return prepare.learn(source).apply(source)


def connect(workers: int | None, address: str | None) -> None:
    """Reach the Ray cluster that workers are to run on, before any work is done."""
    from tell.exceptions import ParameterError

    if address is not None and workers is None:
        raise ParameterError("--address needs --workers; say how many processes may run there")
    if workers is not None:
        from tell.scale.ray_workers import start

        start(workers, address)


def held(source: Source) -> Source:
    """Read a stream that is needed twice into memory."""
    from tell.data.arrays import ArraySource

    rows = source.read()
    copy = ArraySource(rows.X, y=rows.y, name=source.name, shape=source.shape)
    copy.feature_names, copy.preparation = source.feature_names, source.preparation
    return copy


def kept_beside(source: Source, names: list[str]) -> Callable[[Chunk], dict[str, Any]]:
    """What is written beside the labels of a chunk: columns by name, or the files of images."""
    from tell.data.images import ImageFolder
    from tell.data.table_preparation import KeptColumns

    if isinstance(source, ImageFolder):
        files = source.files
        return lambda chunk: {"file": files[chunk.start : chunk.start + len(chunk)]}
    kept_columns = KeptColumns(source, names)
    return lambda chunk: kept_columns.take()


def watched(source: Source, verb: str, *, visible: bool) -> Iterator[Chunk]:
    """Go through the rows of a source with a progress bar."""
    from tell.progress import progress

    with progress(verb, source.n_rows, visible=visible) as bar:
        for chunk in source.chunks():
            yield chunk
            bar.update(chunk.start + len(chunk))
