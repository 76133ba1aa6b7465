"""A `TELL` inside a scikit-learn `Pipeline`, for skl2onnx: one converter, registered on request.

    from tell.export.sklearn_onnx import register
    register(TELL)
    skl2onnx.to_onnx(pipeline, X[:1])

The step becomes the very graph that `model.to_onnx` writes, with the pipeline's rows as its input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tell.exceptions import MissingDependencyError, ParameterError
from tell.export.onnx_model import to_onnx

if TYPE_CHECKING:
    import onnx

_INPUT = "X"
_OUTPUTS = ("label", "distances", "assignment")


def register(estimator: type[Any]) -> None:
    """Teach skl2onnx to convert `TELL`, or a subclass of it; may be called again.

    Outputs of the step: `label`, `distances` and `assignment`, as those of `model.to_onnx`.
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError:
        raise MissingDependencyError(
            'converting a Pipeline needs skl2onnx; install it: pip install "tell-clustering[onnx]"'
        ) from None
    alias = f"Tell{estimator.__name__}"
    update_registered_converter(
        estimator, alias, _shapes, _convert, overwrite=True, parser=_parser(alias)
    )


def _parser(alias: str) -> Any:
    """Declares what the step takes and gives."""
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType

    def parse(scope: Any, model: Any, inputs: list[Any], custom_parsers: Any = None) -> Any:
        operator = scope.declare_local_operator(alias, model)
        operator.inputs.extend(inputs)
        for name in _OUTPUTS:
            kind = Int64TensorType() if name == "label" else FloatTensorType()
            operator.outputs.append(scope.declare_local_variable(name, kind))
        return operator.outputs

    return parse


def _shapes(operator: Any) -> None:
    """Rows are many; clusters are as many as the model has."""
    k = len(operator.raw_operator.cluster_centers_)
    rows = operator.inputs[0].get_first_dimension()
    for variable in operator.outputs:
        shape = [rows] if variable.raw_name == "label" else [rows, k]
        variable.type = type(variable.type)(shape)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Put the model's own graph in, under names that the whole pipeline does not have yet."""
    model = operator.raw_operator
    if getattr(model, "preparation_", None) is not None:
        raise ParameterError(
            "a TELL in a Pipeline needs rows of numbers, got one that was fitted to a table with "
            "more; convert it alone, with model.to_onnx"
        )
    graph = to_onnx(model).graph
    names = {_INPUT: operator.inputs[0].full_name}
    for variable in operator.outputs:
        names[variable.raw_name] = variable.full_name

    def renamed(name: str) -> str:
        if name not in names:
            names[name] = scope.get_unique_variable_name(name)
        return names[name]

    for constant in graph.initializer:
        _add_constant(container, constant, renamed(constant.name))
    for node in graph.node:
        _add_node(container, node, scope, [renamed(n) for n in node.input],
                  [renamed(n) for n in node.output])  # fmt: skip


def _add_constant(container: Any, constant: onnx.TensorProto, name: str) -> None:
    values = _array(constant)
    container.add_initializer(name, constant.data_type, list(constant.dims), values.ravel())


def _array(constant: onnx.TensorProto) -> Any:
    from onnx import numpy_helper

    return numpy_helper.to_array(constant)


def _add_node(
    container: Any, node: onnx.NodeProto, scope: Any, inputs: list[str], outputs: list[str]
) -> None:
    from onnx import helper

    from tell.export.onnx_graph import ML_OPSET, OPSET

    options = {option.name: helper.get_attribute_value(option) for option in node.attribute}
    container.add_node(
        node.op_type,
        inputs,
        outputs,
        op_domain=node.domain,
        op_version=ML_OPSET if node.domain else OPSET,
        name=scope.get_unique_operator_name(node.op_type),
        **options,
    )
