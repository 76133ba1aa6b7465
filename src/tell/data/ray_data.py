"""A Ray data set as a source: its blocks stay where they are until a worker reads them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tell.data.chunks import Choice, Chunk, no_rows
from tell.data.tables import TableSource, schema_numbers, schema_precision
from tell.exceptions import InputError


class RaySource(TableSource):
    """A `ray.data.Dataset`; it is computed once, into the cluster's object store."""

    distributed = True

    def __init__(self, dataset: Any, choice: Choice, chunk_rows: int) -> None:
        import ray

        with _quiet(), _in_order(dataset):
            refs = dataset.materialize().to_arrow_refs()
        outline = ray.remote(num_cpus=0)(_outline)
        found = ray.get([outline.remote(ref) for ref in refs])
        self._parts = [(ref, rows) for ref, (rows, _) in zip(refs, found, strict=True) if rows]
        name = "Ray data set"
        if not self._parts:
            raise no_rows(name)
        schemas = [schema for rows, schema in found if rows]
        super().__init__(
            name,
            list(schemas[0].names),
            choice,
            n_rows=sum(rows for _, rows in self._parts),
            chunk_rows=chunk_rows,
        )
        self.dtype = schema_precision(schemas[0], self.columns)
        for schema in schemas:
            self._check(schema.names)
        self.states_numbers = all(schema_numbers(schema, self.columns) for schema in schemas)

    def _check(self, names: list[str]) -> None:
        missing = sorted(set(self.wanted) - set(names))
        if missing:
            raise InputError(
                f"{self.name}: every block must have the column {missing[0]!r}; one has only "
                f"{', '.join(names)}"
            )

    def _rows(self) -> Iterator[Chunk]:
        return self.between(0, None)

    def between(self, first: int, last: int | None) -> Iterator[Chunk]:
        """Fetch only the blocks that hold some of these rows."""
        import ray

        start, last = 0, self.n_rows or 0 if last is None else last
        for ref, rows in self._parts:
            begin, end = max(first - start, 0), min(last - start, rows)
            if begin < end:
                table = ray.get(ref).select(self.wanted).slice(begin, end - begin)
                at = start + begin
                yield from self._convert(table.to_batches(), start=at, row=at)
            start += rows


def _outline(table: Any) -> tuple[int, Any]:
    return table.num_rows, table.schema


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray's own progress off the screen: people are shown that of the fit."""
    logger = logging.getLogger("ray.data")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _in_order(dataset: Any) -> Iterator[None]:
    """Have blocks come in their order, so that the same data set gives the same fit."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before
