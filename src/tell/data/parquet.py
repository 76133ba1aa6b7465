"""Parquet files, one or many, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tell.data.chunks import Block, Choice, Chunk, no_rows, precision
from tell.data.limits import decoding
from tell.data.tables import TableSource, schema_numbers, schema_precision

# Bytes per column that are read ahead; a whole row group would not be bounded.
_BUFFER = 1 << 16
_PAGE_BYTES = 1 << 20  # of one column that a reader holds decoded: the usual page
_OPEN_BYTES = 48 << 20  # for all readers of shuffled blocks together; the allocator adds a third


class ParquetSource(TableSource):
    """One or more Parquet files; columns are matched by name, whatever their order in each file."""

    def __init__(self, paths: list[Path], name: str, choice: Choice, chunk_rows: int) -> None:
        self._paths = paths
        files = [(path, _open(path)) for path in paths]
        self._row_groups = [
            (path, group, file.metadata.row_group(group).num_rows)
            for path, file in files
            for group in range(file.metadata.num_row_groups)
        ]
        first = list(files[0][1].schema_arrow.names)
        n_rows = sum(rows for *_, rows in self._row_groups)
        if n_rows == 0:
            raise no_rows(name)
        super().__init__(name, first, choice, n_rows=n_rows, chunk_rows=chunk_rows)
        for path, file in files[1:]:
            self.same_columns(list(file.schema_arrow.names), first, choice, str(path))
        schemas = [file.schema_arrow for _, file in files]
        self.states_numbers = all(schema_numbers(schema, self.columns) for schema in schemas)
        self.dtype = precision(*(schema_precision(schema, self.columns) for schema in schemas))

    def _rows(self) -> Iterator[Chunk]:
        start = 0
        for path in self._paths:
            for chunk in self._read(path, None, start, row=0, rows=self.chunk_rows):
                yield chunk
                start = chunk.start + len(chunk)

    def blocks(self) -> list[Block]:
        return [
            partial(self._read, path, [group], start, row, self.block_rows)
            for path, group, start, row, _ in self._places()
        ]

    def between(self, first: int, last: int | None) -> Iterator[Chunk]:
        """Read only the row groups that hold some of these rows."""
        last = sum(rows for *_, rows in self._row_groups) if last is None else last
        for path, group, start, row, rows in self._places():
            if start < last and start + rows > first:
                for chunk in self._read(path, [group], start, row, self.chunk_rows):
                    begin = max(first - chunk.start, 0)
                    if chunk.start < last and begin < len(chunk):
                        yield chunk.part(begin, last - chunk.start, start=chunk.start + begin)

    def _places(self) -> Iterator[tuple[Path, int, int, int, int]]:
        """Each row group: file, number there, first row in the source and in the file, rows."""
        start, row, previous = 0, 0, self._paths[0]
        for path, group, rows in self._row_groups:
            row = row if path == previous else 0
            yield path, group, start, row, rows
            start, row, previous = start + rows, row + rows, path

    @property
    def open_blocks(self) -> int:
        most = max(rows for *_, rows in self._row_groups)
        held = len(self.wanted) * (_BUFFER + min(_PAGE_BYTES, 8 * most))
        return max(2, min(super().open_blocks, _OPEN_BYTES // held))

    def _read(
        self, path: Path, row_groups: list[int] | None, start: int, row: int, rows: int
    ) -> Iterator[Chunk]:
        """Read the given row groups (None: all) of one file, whose first row is `row` there."""
        file = _open(path)
        with decoding(str(path), "Parquet"):
            batches = file.iter_batches(batch_size=rows, columns=self.wanted, row_groups=row_groups)
            yield from self._convert(batches, start=start, file=str(path), row=row)


def _open(path: Path) -> Any:
    import pyarrow.parquet as pq

    with decoding(str(path), "Parquet"):
        # Without pre-buffering and with a bounded read buffer, memory does not grow with the
        # size of a row group.
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
        _ = file.metadata.num_row_groups, file.schema_arrow.names  # the first that may be damaged
        return file
