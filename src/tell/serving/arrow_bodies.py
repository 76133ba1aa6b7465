"""Arrow streams from strangers: checked before memory is taken for them, and before they are used.

A few bytes of a compressed or dictionary-encoded stream can stand for any amount of data, and a
buffer that lies about its lengths could be read beyond its end.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Protocol

from tell.exceptions import InputError
from tell.serving.refusals import RequestError

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DECODED = 1 << 28  # bytes of text that a dictionary may stand for
_HEADER, _COMPRESSION = 2, 3  # fields of the tables Message and RecordBatch
_BATCHES = ("record batch", "dictionary batch")


class Limits(Protocol):
    """What bounds the rows of a request."""

    def check_rows(self, rows: int, n_features: int = 1) -> None: ...

    def check_columns(self, columns: int) -> None: ...


def read_arrow(body: bytes, limits: Limits, wanted: list[str] | None, name: str) -> pa.Table:
    """Read a stream of the IPC format; `wanted` columns alone, if they have names."""
    import pyarrow as pa

    try:
        _check_messages(body, name)
        with pa.ipc.open_stream(body) as reader:
            limits.check_columns(len(reader.schema.names))
            batches, rows = [], 0
            for batch in reader:
                rows += batch.num_rows
                limits.check_rows(rows)
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
        if wanted is not None:
            table = table.select(
                [place for place, n in enumerate(table.column_names) if n in wanted]
            )
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error, OverflowError) as error:
        if isinstance(error, RequestError | InputError):
            raise
        reason = " ".join(str(error).split())[:200]
        raise RequestError(400, f"{name} is not an Arrow stream: {reason}") from None
    for column, field in zip(table.columns, table.schema, strict=True):
        _check_column(column, field, name)
    return table


def _check_messages(body: bytes, name: str) -> None:
    """Refuse compressed batches, whose size nobody knows before they are unpacked."""
    import pyarrow as pa

    reader = pa.ipc.MessageReader.open_stream(body)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type in _BATCHES and _is_compressed(message.metadata, message.type):
            raise RequestError(
                415, f"{name}: an Arrow stream must not be compressed; write it without a codec"
            )


def _is_compressed(metadata: Any, kind: str) -> bool:
    """Whether the flatbuffer of a message names a compression.

    A message holds a record batch, or a dictionary whose field 1 is one.
    """
    view = memoryview(metadata)
    table = _follow(view, struct.unpack_from("<I", view, 0)[0], _HEADER)
    if kind == _BATCHES[1] and table is not None:
        table = _follow(view, table, 1)
    return table is not None and _follow(view, table, _COMPRESSION) is not None


def _follow(view: memoryview, table: int, field: int) -> int | None:
    """Where the table in a field of a flatbuffer's table begins; None if it is not there."""
    vtable = table - struct.unpack_from("<i", view, table)[0]
    size = struct.unpack_from("<H", view, vtable)[0]
    place = 4 + 2 * field
    offset = struct.unpack_from("<H", view, vtable + place)[0] if place + 2 <= size else 0
    if not offset:
        return None
    start = table + int(offset)
    return start + int(struct.unpack_from("<I", view, start)[0])


def _check_column(column: Any, field: Any, name: str) -> None:
    """Allow cells that are numbers, texts, truth values or dates."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        for chunk in column.chunks:
            if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                longest = pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0
                if longest * len(column) > MOST_DECODED:
                    raise RequestError(
                        413, f"{name}: column {field.name!r} decodes to too much text; send it "
                        "as plain text, in parts"
                    )  # fmt: skip
    t = pa.types
    allowed = (
        t.is_integer, t.is_floating, t.is_boolean, t.is_decimal, t.is_null, t.is_string,
        t.is_large_string, t.is_date, t.is_timestamp,
    )  # fmt: skip
    if not any(fits(kind) for fits in allowed):
        raise InputError(
            f"{name}: column {field.name!r} must hold numbers, texts, truth values or dates, got "
            f"{kind}; convert it"
        )
