"""From the options `encoder` and `decoder` to modules, and to names that a model file can keep."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor, nn

from tell.core.autoencoder import UnitLength, build_autoencoder, channels_last_
from tell.estimators.deep.import_paths import import_path, imported, is_import_path
from tell.estimators.deep.layer_text import build_layers, is_layer_text, is_named, layer_text
from tell.estimators.deep.model import DeepModel
from tell.estimators.deep.recipes.recipe import Recipe
from tell.exceptions import ModelFileError, ParameterError

Network = str | nn.Module | None
# What a network raises on rows that it was not made for.
FORWARD_ERRORS = (RuntimeError, ValueError, TypeError, IndexError)


Builder = TypeVar("Builder", bound=Callable[[], nn.Module])
_BUILDERS: WeakSet[Callable[[], nn.Module]] = WeakSet()


class ModelOptions(Protocol):
    """The options of `DeepTELL` that shape its model."""

    n_clusters: int
    encoder: Network
    decoder: Network
    embedding_dim: int
    device: str | torch.device


def build_networks(
    encoder: Network, decoder: Network, shape: tuple[int, ...], embedding_dim: int, table: str
) -> tuple[nn.Module, nn.Module | None]:
    """Build or copy the modules; every encoder ends on the unit sphere.

    decoder="auto" is the mirror of a named encoder, and nothing for an encoder of the user's own.
    """
    # `fit` must not change the options. In one copy, so that what the two share stays shared.
    encoder, decoder = copy.deepcopy((encoder, decoder))
    if is_named(encoder):
        kind = encoder if encoder != "auto" else ("cnn" if len(shape) == 3 else table)
        built, mirror = build_autoencoder(str(kind), shape, embedding_dim)
        return built, mirror if decoder == "auto" else _own(decoder, "decoder")
    own = _own(encoder, "encoder")
    if own is None:
        raise ParameterError("encoder=None must be a name or a torch module; pass encoder='auto'")
    back = None if decoder == "auto" else _own(decoder, "decoder")
    return nn.Sequential(own, UnitLength()), back


def new_model(options: ModelOptions, recipe: Recipe, shape: tuple[int, ...]) -> DeepModel:
    """Build an untrained model for rows of the network's shape."""
    encoder, decoder = build_networks(
        options.encoder, options.decoder, shape, options.embedding_dim, recipe.table_network
    )
    for network in (encoder, decoder):
        if network is not None:
            _float32_(network.to("cpu"))
    size = embedding_size(encoder, shape)
    if decoder is not None:
        check_decoder(decoder, size, shape)
    layer = recipe.layer(size, options.n_clusters)
    model = DeepModel(encoder, decoder, layer).to(options.device)
    channels_last_(model)
    return model


def network_builder(function: Builder) -> Builder:
    """Mark a function that builds a network, so that a model file may name it.

    Only such functions, and classes of modules, are called when a model is loaded, so that a file
    cannot have any other function called.

    >>> @network_builder
    ... def small() -> nn.Module:
    ...     return nn.Linear(4, 2)
    """
    _BUILDERS.add(function)
    return function


@contextmanager
def float32_by_default() -> Iterator[None]:
    """Build and train in float32, the type of the rows, whatever torch's default is."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@torch.no_grad()
def embedding_size(encoder: nn.Module, shape: tuple[int, ...]) -> int:
    """Return p of the encoder's output (n, p), found by trying two rows of zeros."""
    encoder.eval()
    # Without the last step, to unit length, which can take nothing but a tensor.
    own = encoder[:-1] if isinstance(encoder, nn.Sequential) else encoder
    try:
        z = own(torch.zeros(2, *shape))
    except FORWARD_ERRORS as error:
        raise ParameterError(
            f"encoder must take rows of shape {_of_rows(shape)}, got {error}; "
            "reshape X or the encoder's input"
        ) from error
    if not isinstance(z, Tensor):
        raise ParameterError(
            f"encoder must return one tensor (n, p), got {type(z).__name__}; return the embedding "
            "alone"
        )
    if z.ndim != 2 or len(z) != 2:
        raise ParameterError(
            f"encoder must return one vector per row (n, p), got the shape {tuple(z.shape)} for "
            "2 rows; flatten its output"
        )
    return int(z.shape[1])


@torch.no_grad()
def check_decoder(decoder: nn.Module, embedding_dim: int, shape: tuple[int, ...]) -> None:
    """Try the decoder: it takes (n, p) and returns as many values as a row has, in any shape."""
    decoder.eval()
    try:
        with torch.random.fork_rng(devices=[]):
            x = decoder(torch.zeros(2, embedding_dim))
    except FORWARD_ERRORS as error:
        raise ParameterError(
            f"decoder must take embedded rows (n, {embedding_dim}), got {error}; "
            "change its input or the encoder's output"
        ) from error
    found = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
    if found[:1] != (2,) or x.numel() != 2 * torch.Size(shape).numel():
        raise ParameterError(
            f"decoder must return the rows {_of_rows(shape)}, got {found} for 2 rows; "
            "change its output"
        )


def network_name(network: Network, role: str) -> str | None:
    """Return what a model file keeps of the option: a name, layers as text, or an import path.

    >>> network_name("cnn", "encoder"), network_name(None, "decoder")
    ('cnn', None)
    """
    if network is None or isinstance(network, str):
        return network
    if (text := layer_text(network)) is not None:
        return text
    path = import_path(type(network))
    try:
        with torch.random.fork_rng(devices=[]):  # what the new one draws is nobody's
            fits = _shapes(import_network(path)) == _shapes(network)
    except ModelFileError:
        fits = False
    if not fits:
        raise not_saveable(network, role)
    return path


def not_saveable(network: Network, role: str) -> ParameterError:
    """Return the error for a network that a model file could not bring back."""
    if isinstance(network, nn.Module):
        return ParameterError(
            f"{role}={type(network).__name__}(...) must be layers of torch.nn, or importable and "
            "come back the same when built without arguments, to be saved; write a function that "
            f"builds it in a module of yours and pass {role}='package.module:function'"
        )
    return ParameterError(
        f"{role}={network!r} must build the network of the fit to be saved, got another one; "
        "undo what set_params changed or fit again"
    )


def import_network(path: str) -> nn.Module:
    """Build a module from 'package.module:function or class'."""
    build = imported(path)
    _check_builder(build, path)
    try:
        network = build()
    except TypeError as error:
        raise ModelFileError(
            f"network {path!r} must be buildable without arguments, got {error}; name a function "
            "that builds it"
        ) from error
    if not isinstance(network, nn.Module):
        raise ModelFileError(
            f"network {path!r} must give a torch module, got {type(network).__name__}; "
            "name a function or class that builds one"
        )
    return network


def _check_builder(found: Any, path: str) -> None:
    """Refuse, before it is called, what was never meant to build a network."""
    if isinstance(found, type) and issubclass(found, nn.Module):
        return
    if isinstance(found, FunctionType) and found in _BUILDERS:
        return
    raise ModelFileError(
        f"network {path!r} must be a class of torch modules or a function marked with "
        f"@tell.network_builder, got {found!r}; mark the function that builds the network"
    )


def _own(network: Network, role: str) -> nn.Module | None:
    if network is None:
        return None
    if isinstance(network, nn.Module):
        return network
    if is_layer_text(network):
        return build_layers(str(network))
    if is_import_path(network):
        return import_network(str(network))
    raise ParameterError(
        f"{role}={network!r} must be 'auto', a torch module or 'package.module:function'; "
        "pass one of these"
    )


def _float32_(network: nn.Module) -> None:
    """Bring the network to the type of the rows, in place."""
    for tensor in (*network.parameters(), *network.buffers()):
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            tensor.data = tensor.data.float()


def _of_rows(shape: tuple[int, ...]) -> str:
    return f"(n, {', '.join(map(str, shape))})"


def _shapes(network: nn.Module) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in network.state_dict().items()}
