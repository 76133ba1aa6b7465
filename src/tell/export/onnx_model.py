"""A fitted model as an ONNX file: rows in the user's columns and units in, labels out.

    model.to_onnx("model.onnx")            tell export model --onnx model.onnx

Preparation, scaling, encoder and centres are all inside. Arithmetic is in double, except inside
the encoder of a `DeepTELL`.
"""

from __future__ import annotations

import json
import os
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tell.contract import AffineInput, ClusterModel, EncodedInput, cluster_names
from tell.data.preparation import Preparation
from tell.exceptions import MissingDependencyError, ParameterError
from tell.export.onnx_graph import (
    IR_VERSION,
    OPSET,
    Graph,
    add_assignment,
    add_table,
    import_onnx,
)
from tell.files import write_whole

if TYPE_CHECKING:
    import onnx


def write_onnx(
    model: ClusterModel,
    path: str | os.PathLike[str],
    *,
    double: bool = False,
    reject: float | None = None,
) -> None:
    """Write `to_onnx`'s model to a file, whole or not at all."""
    write_whole(Path(path), to_onnx(model, double=double, reject=reject).SerializeToString())


def to_onnx(
    model: ClusterModel, *, double: bool = False, reject: float | None = None
) -> onnx.ModelProto:
    """Build the ONNX model of a fitted model.

    A model that was fitted to a table takes one input per column (rows, 1), by the column's name:
    doubles in which NaN is a gap, texts in which "" is one, dates as days since 1970. Others take
    one input `X` of the shape of their rows, float or, with `double`, double. Outputs: `label`
    (−1 where a row has a gap that nothing fills), `distances` and `assignment` to all centres,
    `rejected` with `reject`, and `name` where clusters have names.
    """
    description, path = model.describe(), model.input_path
    preparation = getattr(model, "preparation_", None)
    graph = Graph()
    rows = _rows(graph, preparation, description.input_shape, double=double)
    if isinstance(path, AffineInput):
        rows = _affine(graph, rows, path.offset, path.scale)
        whole = None
    else:
        whole, graph = _encoded(graph, rows, path)
        rows = graph.cast(graph.input("embedded", "FLOAT", [_width(model)]), "DOUBLE")
    centers = np.asarray(model.cluster_centers_, np.float64)
    limits = None if reject is None else _limits(model, reject)
    temperature = description.assignment_temperature
    add_assignment(graph, rows, centers, description.geometry, temperature, limits)
    _add_names(graph, cluster_names(model))
    made = graph.model()
    if whole is not None:
        made = _joined(whole, made, "embedding", "embedded")
    return _signed(made, model, preparation)


def _rows(
    graph: Graph, preparation: Preparation | None, shape: tuple[int, ...], *, double: bool
) -> str:
    if preparation is not None:
        return add_table(graph, preparation)
    rows = graph.input("X", "DOUBLE" if double else "FLOAT", shape)
    return rows if double else graph.cast(rows, "DOUBLE")


def _limits(model: ClusterModel, reject: float) -> Any:
    """Squared distances (k,) beyond which rows are rejected."""
    if not hasattr(model, "reject_limits"):
        raise ParameterError(f"reject needs a TELL, got {model.describe().kind}; leave it out")
    return model.reject_limits(reject)


def _affine(graph: Graph, rows: str, offset: Any, scale: Any) -> str:
    if offset is not None:
        rows = graph.node("Sub", rows, graph.constant(np.asarray(offset, np.float64)))
    if scale is not None:
        rows = graph.node("Div", rows, graph.constant(np.asarray(scale, np.float64)))
    return rows


def _width(model: ClusterModel) -> int:
    return int(model.cluster_centers_.shape[1])


def _encoded(graph: Graph, rows: str, path: EncodedInput) -> tuple[onnx.ModelProto, Graph]:
    """The graph up to the embedding, and a new one for what follows."""
    shape = graph.constant(np.array([-1, *path.shape], np.int64))
    rows = _affine(graph, graph.node("Reshape", rows, shape), path.offset, path.scale)
    graph.output(graph.cast(rows, "FLOAT"), "scaled", "FLOAT", path.shape)
    return _joined(graph.model(), _encoder(path), "scaled", "x"), Graph("after")


def _encoder(path: EncodedInput) -> onnx.ModelProto:
    """The encoder by torch's own exporter: x (rows, ...) to embedding (rows, p)."""
    import torch

    try:
        import onnxscript  # noqa: F401  # torch's exporter is written with it
    except ImportError:
        raise MissingDependencyError(
            'exporting a DeepTELL needs onnxscript; install it: pip install "tell-clustering[onnx]"'
        ) from None
    path.encoder.eval()
    device = next((p.device for p in path.encoder.parameters()), torch.device("cpu"))
    example = torch.zeros((3, *path.shape), device=device)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter's own parts
        program = torch.onnx.export(
            path.encoder,
            (example,),
            dynamo=True,
            opset_version=OPSET,
            input_names=["x"],
            output_names=["embedding"],
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            verbose=False,
        )
    made: Any = program.model_proto  # type: ignore[union-attr] # None only without dynamo
    made.ir_version = IR_VERSION
    return made


def _joined(first: Any, second: Any, output: str, into: str) -> onnx.ModelProto:
    from onnx import compose

    for opset in first.opset_import:  # both must name the same sets of operators
        if opset.domain not in {known.domain for known in second.opset_import}:
            second.opset_import.append(opset)
    first.ir_version = second.ir_version = IR_VERSION
    return compose.merge_models(first, second, io_map=[(output, into)])


def _add_names(graph: Graph, names: dict[int, str]) -> None:
    if not names:
        return
    label = graph.outputs[0].name
    named = graph.node(
        "LabelEncoder",
        label,
        domain="ai.onnx.ml",
        keys_int64s=list(names),
        values_strings=list(names.values()),
        default_string="",
    )
    graph.output(named, "name", "STRING", [])


def _signed(made: Any, model: ClusterModel, preparation: Preparation | None) -> onnx.ModelProto:
    """Say inside the file where it comes from, and check it."""
    onnx = import_onnx()
    made.producer_name, made.producer_version = "tell", version("tell-clustering")
    description = model.describe()
    columns = None if preparation is None else {c.name: c.kind for c in preparation.used}
    facts = {
        "kind": description.kind,
        "geometry": description.geometry,
        "n_clusters": description.n_clusters,
        "columns": columns,
        "feature_names": description.feature_names,
        "cluster_names": {str(j): name for j, name in cluster_names(model).items()},
    }
    onnx.helper.set_model_props(made, {"tell": json.dumps(facts)})
    onnx.checker.check_model(made, full_check=True)
    return made
