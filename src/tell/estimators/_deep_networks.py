"""From the options `encoder` and `decoder` to modules, and to names that a model file can keep."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any, Protocol

import torch
from torch import nn

from tell.core.autoencoder import UnitLength, build_autoencoder, channels_last_
from tell.estimators._deep_run import DeepModel, Recipe
from tell.exceptions import ModelFileError, ParameterError

Network = str | nn.Module | None


class ModelOptions(Protocol):
    """The options of `DeepTELL` that shape its model."""

    n_clusters: int
    encoder: Network
    decoder: Network
    embedding_dim: int
    device: str


def build_networks(
    encoder: Network, decoder: Network, shape: tuple[int, ...], embedding_dim: int, table: str
) -> tuple[nn.Module, nn.Module | None]:
    """Build or copy the modules; every encoder ends on the unit sphere.

    decoder="auto" is the mirror of a named encoder, and nothing for an encoder of the user's own.
    """
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
    layer = recipe.layer(embedding_size(encoder, shape), options.n_clusters)
    model = DeepModel(encoder, decoder, layer).to(options.device)
    channels_last_(model)
    return model


def is_named(network: Network) -> bool:
    """Say whether the network is one of ours, by name."""
    return isinstance(network, str) and ":" not in network


@torch.no_grad()
def embedding_size(encoder: nn.Module, shape: tuple[int, ...]) -> int:
    """Return p of the encoder's output (n, p), found by trying two rows of zeros."""
    encoder.eval()
    try:
        z = encoder(torch.zeros(2, *shape))
    except (RuntimeError, ValueError, TypeError) as error:
        raise ParameterError(
            f"encoder must take rows of shape (n, {', '.join(map(str, shape))}), got {error}; "
            "reshape X or the encoder's input"
        ) from error
    if z.ndim != 2 or len(z) != 2:
        raise ParameterError(
            f"encoder must return one vector per row (n, p), got the shape {tuple(z.shape)} for "
            "2 rows; flatten its output"
        )
    return int(z.shape[1])


def network_name(network: Network, role: str) -> str | None:
    """Return what a model file keeps of the option: a name or an import path.

    >>> network_name("cnn", "encoder"), network_name(None, "decoder")
    ('cnn', None)
    """
    if network is None or isinstance(network, str):
        return network
    path = f"{type(network).__module__}:{type(network).__qualname__}"
    try:
        fresh = import_network(path)
        fits = _shapes(fresh) == _shapes(network)
    except ModelFileError:
        fits = False
    if not fits:
        raise ParameterError(
            f"{role}={type(network).__name__}(...) must be importable and buildable without "
            f"arguments to be saved; write a function that builds it in a module of yours and pass "
            f"{role}='package.module:function'"
        )
    return path


def import_network(path: str) -> nn.Module:
    """Build a module from 'package.module:function or class'."""
    place, _, name = path.partition(":")
    try:
        found: Any = import_module(place)
        for part in name.split("."):
            found = getattr(found, part)
        network = found()
    except (ImportError, AttributeError, TypeError) as error:
        raise ModelFileError(
            f"network {path!r} must be importable and buildable without arguments, got "
            f"{type(error).__name__}: {error}; install the package that has it or put it on "
            "PYTHONPATH"
        ) from error
    if not isinstance(network, nn.Module):
        raise ModelFileError(
            f"network {path!r} must give a torch module, got {type(network).__name__}; "
            "name a function or class that builds one"
        )
    return network


def _own(network: Network, role: str) -> nn.Module | None:
    if network is None:
        return None
    if isinstance(network, nn.Module):
        return copy.deepcopy(network)  # `fit` must not change the options
    if isinstance(network, str) and ":" in network:
        return import_network(network)
    raise ParameterError(
        f"{role}={network!r} must be 'auto', a torch module or 'package.module:function'; "
        "pass one of these"
    )


def _shapes(network: nn.Module) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in network.state_dict().items()}
