"""The OpenAPI document of a service: what a request brings, in the model's own columns."""

from __future__ import annotations

from typing import Any

from tell.serving.bodies import ARROW, CSV, JSON, LINES, RowReader

Schema = dict[str, Any]

_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}},
}
_REASONS = {
    400: "The body is not what its content type says.",
    401: "The call needs the token.",
    403: "The service was started without --learn.",
    408: "The body took too long to arrive.",
    413: "The body has too many bytes or rows.",
    415: "The content type is none of those that are read, or the body is compressed.",
    421: "The service is not to be asked by this host name.",
    422: "Rows, columns or values cannot be used; the error names row and column.",
    500: "A mistake in the service; its log says more.",
    501: "A package that the explanation of this model needs is not installed.",
    503: "Too many requests at a time, or the model could not be saved.",
    504: "The answer took too long.",
}
_ALWAYS = (401, 421, 500, 503)
_WITH_BODY = (400, 408, 413, 415, 422, 504)
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_MAYBE: Schema = {"type": ["number", "null"]}
_BY_CLUSTER: Schema = {"type": "object", "additionalProperties": _MAYBE}


def errors(*more: int, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """What may go wrong with a call."""
    codes = sorted({*_ALWAYS, *(_WITH_BODY if body else ()), *more})
    content = {JSON: {"schema": _ERROR}}
    return {code: {"description": _REASONS[code], "content": content} for code in codes}


def answer(description: str, schema: Schema, *others: str) -> dict[int | str, dict[str, Any]]:
    """What comes if nothing goes wrong."""
    content: Schema = {JSON: {"schema": schema}}
    content |= {kind: {"schema": {"type": "string", "format": "binary"}} for kind in others}
    return {200: {"description": description, "content": content}}


def rows_body(reader: RowReader) -> dict[str, Any]:
    """A body of rows in the columns of a model."""
    lists: Schema = {"type": "array", "items": {"type": ["number", "string", "boolean", "null"]}}
    if reader.columns is None:
        lists |= {"minItems": reader.n_features, "maxItems": reader.n_features}
        row: Schema = lists
    else:
        cell: Schema = {"type": ["number", "string", "boolean", "null"]}
        if reader.all_numbers:
            cell = {"type": ["number", "null"]}
        named = {
            "type": "object",
            "required": list(reader.columns),
            "properties": {name: dict(cell) for name in reader.columns},
        }
        row = {"anyOf": [named, lists]}
    rows: Schema = {"type": "array", "minItems": 1, "items": row}
    whole = {"type": "object", "required": ["rows"], "properties": {"rows": rows}}
    text = {"type": "string"}
    return {
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": {"anyOf": [whole, rows]}},
                CSV: {"schema": text},
                LINES: {"schema": text},
                ARROW: {"schema": text | {"format": "binary"}},
            },
        }
    }


def query(name: str, schema: Schema, description: str) -> dict[str, Any]:
    """One optional parameter behind the question mark."""
    return {"name": name, "in": "query", "required": False, "schema": schema,
            "description": description}  # fmt: skip


PREDICT_PARAMETERS = [
    query("proba", {"type": "boolean"}, "Add the soft assignment to every cluster."),
    query("distances", {"type": "boolean"}, "Add the distance to every centre."),
    query(
        "reject",
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "Give -1 to rows that lie farther out than all but this share of the cluster.",
    ),
]
LABELS: Schema = {
    "type": "object",
    "required": ["cluster"],
    "properties": {
        "cluster": {"type": "array", "items": {"type": "integer"}},
        "cluster_name": _TEXTS,
        "probability": {"type": "array", "items": {"type": "array", "items": _MAYBE}},
        "distance": {"type": "array", "items": {"type": "array", "items": _MAYBE}},
        "warnings": _TEXTS,
    },
}
REASONS: Schema = {
    "type": "object",
    "required": ["cluster", "runner_up", "margin", "contributions", "summary"],
    "properties": {
        "cluster": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "runner_up": {"type": "integer"},
        "margin": _MAYBE,
        "clearness": _MAYBE,
        "method": {"type": "string"},
        "attention": _BY_CLUSTER,
        "squared_distances": _BY_CLUSTER,
        "contributions": {"type": "array", "items": {"type": "object"}},
        "change": {"type": ["object", "null"]},
        "summary": {"type": "string"},
        "warnings": _TEXTS,
    },
}
LEARNED: Schema = {
    "type": "object",
    "required": ["rows", "skipped", "rows_seen", "drift"],
    "properties": {
        "rows": {"type": "integer"},
        "skipped": {"type": "integer"},
        "rows_seen": {"type": "integer"},
        "loss": _MAYBE,
        "running_loss": _MAYBE,
        "baseline_loss": _MAYBE,
        "drift": {"type": "boolean"},
        "warnings": _TEXTS,
    },
}
MODEL: Schema = {"type": "object", "required": ["kind", "n_clusters", "n_features"]}
CLUSTERS: Schema = {
    "type": "object",
    "required": ["clusters"],
    "properties": {
        "features": {"type": ["array", "null"], "items": {"type": "string"}},
        "clusters": {"type": "array", "items": {"type": "object"}},
    },
}
HEALTHY: Schema = {"type": "object", "required": ["status"]}
