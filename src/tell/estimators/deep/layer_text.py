"""Networks of torch's own layers as text: a model file keeps it, and no code runs to read it."""

from __future__ import annotations

import ast
import inspect
import math
from typing import Any

import torch
from torch import nn

from tell.estimators.deep.import_paths import is_import_path
from tell.exceptions import ModelFileError

# What says where a layer lies, not what it is.
_ELSEWHERE = ("self", "device", "dtype")
# The modules of torch.nn whose classes are one layer each: a transformer of a billion layers, which
# a damaged file may ask for, is not among them.
_SINGLE = (
    *("activation", "batchnorm", "channelshuffle", "conv", "dropout", "flatten", "fold"),
    *("instancenorm", "linear", "normalization", "padding", "pixelshuffle", "pooling"),
    "upsampling",
)


def is_layer_text(network: object) -> bool:
    """Say whether this is a text such as 'Linear(in_features=4, out_features=2)'."""
    return isinstance(network, str) and "(" in network


def is_named(network: object) -> bool:
    """Say whether the network is one of ours, by name, and no text or path of the user's own."""
    return isinstance(network, str) and not (is_layer_text(network) or is_import_path(network))


def layer_text(network: nn.Module) -> str | None:
    """Return what builds a network again, or None if it is not made of torch's layers alone.

    >>> layer_text(nn.Sequential(nn.Linear(4, 2), nn.ReLU()))
    'Sequential(Linear(in_features=4, out_features=2, bias=True), ReLU(inplace=False))'
    """
    text = _written(network)
    try:
        same = text is not None and repr(build_layers(text, device="meta")) == repr(network)
    except ModelFileError:
        same = False
    return text if same else None


def _written(network: nn.Module) -> str | None:
    name = type(network).__name__
    if _layer(name) is not type(network):
        return None
    if type(network) is nn.Sequential:
        parts = [_written(part) for part in network]
        return None if None in parts else f"Sequential({', '.join(map(str, parts))})"
    options = []
    for parameter in inspect.signature(type(network)).parameters.values():
        if parameter.name in _ELSEWHERE or not hasattr(network, parameter.name):
            continue
        value = getattr(network, parameter.name)
        if parameter.name == "bias":  # an option of that name becomes the weights
            value = value is not None
        if not _is_literal(value):
            return None
        options.append(f"{parameter.name}={value!r}")
    return f"{name}({', '.join(options)})"


def _is_literal(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_literal, value))
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)


def build_layers(text: str, device: str = "cpu") -> nn.Module:
    """Build the network of a text; on the device "meta" it takes no memory.

    >>> build_layers("Linear(in_features=4, out_features=2)")
    Linear(in_features=4, out_features=2, bias=True)
    """
    try:
        with torch.device(device):
            return _built(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise ModelFileError(
            f"network {text[:80]!r} must be layers of torch.nn with their options, got "
            f"{type(error).__name__}: {error}; pass a torch module"
        ) from error


def _built(node: ast.expr) -> nn.Module:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError("something that is no layer")
    layer = _layer(node.func.id)
    if layer is None:
        raise ValueError(f"{node.func.id}, which is no layer of torch.nn")
    options = {part.arg: ast.literal_eval(part.value) for part in node.keywords if part.arg}
    return layer(*map(_built, node.args), **options)


def _layer(name: str) -> type[nn.Module] | None:
    """Return the class of this name, if it is a layer of torch.nn or a sequence of them."""
    found = getattr(nn, name, None)
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        return None
    place = found.__module__.removeprefix("torch.nn.modules.")
    return found if place in _SINGLE or found is nn.Sequential else None
