"""Building blocks of an ONNX graph, and a table's preparation made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.data.cells import plain_number
from tell.data.preparation import YEAR, Column, Preparation
from tell.exceptions import MissingDependencyError

if TYPE_CHECKING:
    import onnx

#: What the graphs are written for; every runtime of the last years reads them.
OPSET, ML_OPSET, IR_VERSION = 18, 3, 8
_UNKNOWN, _GAP = -1, -2  # texts that no category has, and empty ones that nothing fills


def import_onnx() -> Any:
    """The package `onnx`, which only those who export need."""
    try:
        import onnx
    except ImportError:
        raise MissingDependencyError(
            'writing ONNX needs onnx; install it: pip install "tell-clustering[onnx]"'
        ) from None
    return onnx


class Graph:
    """An ONNX graph that grows node by node; values are known by their names."""

    def __init__(self, prefix: str = "tell") -> None:
        self._onnx, self._prefix = import_onnx(), prefix
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def _name(self) -> str:
        return f"{self._prefix}_{len(self.nodes) + len(self.constants)}"

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> str:
        """Declare an input of any number of rows."""
        self.inputs.append(self._value(name, dtype, shape))
        return name

    def output(self, value: str, name: str, dtype: str, shape: Sequence[int]) -> None:
        """Declare a value as an output, under a name of its own."""
        self.nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self._value(name, dtype, shape))

    def _value(self, name: str, dtype: str, shape: Sequence[int]) -> Any:
        kind = getattr(self._onnx.TensorProto, dtype)
        return self._onnx.helper.make_tensor_value_info(name, kind, ["rows", *shape])

    def constant(self, array: Any) -> str:
        """Keep an array in the graph."""
        name = self._name()
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **options: Any) -> str:
        """Apply an operator and name its result."""
        name = self._name()
        made = self._onnx.helper.make_node(operator, inputs, [name], domain=domain, **options)
        self.nodes.append(made)
        return name

    def cast(self, value: str, dtype: str) -> str:
        """Change the type of a value."""
        return self.node("Cast", value, to=getattr(self._onnx.TensorProto, dtype))

    def model(self) -> onnx.ModelProto:
        """The graph as a model of its own."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self.nodes, self._prefix, self.inputs, self.outputs, initializer=self.constants
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def add_table(graph: Graph, preparation: Preparation) -> str:
    """Read a table's own columns, one input each, and give its features (rows, d) in double.

    Numbers are doubles in which NaN is a gap; categories and booleans are texts in which "" is a
    gap; dates are days since 1970 as doubles.
    """
    return graph.node("Concat", *(_block(graph, column) for column in preparation.used), axis=1)


def _block(graph: Graph, column: Column) -> str:
    if column.treatment == "one-hot":
        return _one_hot(graph, column)
    if column.treatment == "0/1":
        numbers = _truths(graph, column)
    else:
        numbers = graph.input(column.name, "DOUBLE", [1])
    if column.fill is not None:
        filled = graph.constant(np.array(float(column.fill)))
        numbers = graph.node("Where", graph.node("IsNaN", numbers), filled, numbers)
    if column.treatment == "log":
        return graph.node("Log", graph.node("Add", numbers, graph.constant(np.array(1.0))))
    return _date_parts(graph, numbers) if column.treatment == "date" else numbers


def _date_parts(graph: Graph, days: str) -> str:
    turn = graph.node("Mul", days, graph.constant(np.array(2 * math.pi / YEAR)))
    quarter = graph.node("Add", turn, graph.constant(np.array(math.pi / 2)))
    return graph.node("Concat", days, graph.node("Sin", turn), graph.node("Sin", quarter), axis=1)


def _one_hot(graph: Graph, column: Column) -> str:
    categories = column.categories or ()
    places = {text: place for place, text in enumerate(categories)}
    keys = {form: place for text, place in places.items() for form in _forms(text, column.numeric)}
    keys[""] = _GAP if column.fill is None else places.get(str(column.fill), _UNKNOWN)
    index = _looked_up(graph, column.name, keys)
    numbers = graph.constant(np.arange(len(categories), dtype=np.int64)[None])
    block = graph.cast(graph.node("Equal", index, numbers), "DOUBLE")
    return block if column.fill is not None else _nan_where(graph, index, block)


def _truths(graph: Graph, column: Column) -> str:
    no, yes = column.categories or ("0", "1")
    keys = {
        form: value
        for value, text in ((0, no), (1, yes))
        for known in _forms(text, column.numeric)
        for form in (known, known.lower(), known.upper(), known.capitalize())
    }
    index = _looked_up(graph, column.name, {**keys, "": _GAP})
    return _nan_where(graph, index, graph.cast(index, "DOUBLE"))


def _forms(text: str, numeric: bool) -> list[str]:
    """How a text may be written: the number 1 also as 1.0."""
    if not numeric:
        return [text]
    return list(dict.fromkeys([text, plain_number(text), str(float(text))]))


def _looked_up(graph: Graph, name: str, keys: dict[str, int]) -> str:
    return graph.node(
        "LabelEncoder",
        graph.input(name, "STRING", [1]),
        domain="ai.onnx.ml",
        keys_strings=list(keys),
        values_int64s=list(keys.values()),
        default_int64=_UNKNOWN,
    )


def _nan_where(graph: Graph, index: str, block: str) -> str:
    """NaN for gaps, and for truths that are neither; a category that is unknown stays all zero."""
    gap = graph.node("Equal", index, graph.constant(np.array(_GAP, np.int64)))
    return graph.node("Where", gap, graph.constant(np.array(math.nan)), block)


def add_assignment(
    graph: Graph,
    rows: str,
    centers: NDArray[np.float64],
    geometry: str,
    temperature: float | None,
    limits: NDArray[np.float64] | None = None,
) -> None:
    """Say of rows (n, p) in double what the model says: label, distances, assignment (eq. 7).

    With `limits` (k,) also whether the squared distance to the own centre lies beyond its limit.
    """
    squared = (_on_sphere if geometry == "sphere" else _in_space)(graph, rows, centers)
    lost = graph.node("IsNaN", graph.node("ReduceSum", squared, _axis(graph), keepdims=0))
    label = graph.node("ArgMin", squared, axis=1, keepdims=0)
    nowhere = graph.constant(np.array(-1, np.int64))
    k = len(centers)
    graph.output(graph.node("Where", lost, nowhere, label), "label", "INT64", [])
    graph.output(graph.cast(graph.node("Sqrt", squared), "FLOAT"), "distances", "FLOAT", [k])
    if temperature is not None:
        scores = graph.node("Div", squared, graph.constant(np.array(-temperature)))
        shares = graph.cast(graph.node("Softmax", scores, axis=1), "FLOAT")
        graph.output(shares, "assignment", "FLOAT", [k])
    if limits is not None:
        nearest = graph.node("ReduceMin", squared, _axis(graph), keepdims=0)
        limit = graph.node("Gather", graph.constant(limits.astype(np.float64)), label)
        graph.output(graph.node("Greater", nearest, limit), "rejected", "BOOL", [])


def _axis(graph: Graph) -> str:
    return graph.constant(np.array([1], np.int64))


def _on_sphere(graph: Graph, rows: str, centers: NDArray[np.float64]) -> str:
    """2 − 2 cos of the angle; a row of zeros has no direction and is at 2 from every centre."""
    length = graph.node("Sqrt", graph.node("ReduceSumSquare", rows, _axis(graph), keepdims=1))
    zero, one = graph.constant(np.array(0.0)), graph.constant(np.array(1.0))
    length = graph.node("Where", graph.node("Equal", length, zero), one, length)
    directions = centers / np.linalg.norm(centers, axis=1, keepdims=True)  # in full precision
    cosine = graph.node("MatMul", graph.node("Div", rows, length), graph.constant(directions.T))
    two = graph.constant(np.array(2.0))
    squared = graph.node("Sub", two, graph.node("Mul", two, cosine))
    return graph.node("Max", squared, zero)


def _in_space(graph: Graph, rows: str, centers: NDArray[np.float64]) -> str:
    """‖x‖² − 2 x·c + ‖c‖² about the mean of the centres, so that large means do not cancel."""
    middle = centers.mean(axis=0)
    moved, near = graph.node("Sub", rows, graph.constant(middle)), centers - middle
    squares = graph.node("ReduceSumSquare", moved, _axis(graph), keepdims=1)
    product = graph.node("MatMul", moved, graph.constant(2 * near.T))
    offset = graph.constant((near**2).sum(axis=1)[None])
    squared = graph.node("Add", graph.node("Sub", squares, product), offset)
    return graph.node("Max", squared, graph.constant(np.array(0.0)))
