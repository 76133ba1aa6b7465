"""The state of an interrupted run as one file: safetensors with JSON in its header, never pickle.

Whatever kills the process leaves either the earlier state or the new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor
from torch.optim import Optimizer

from tell.exceptions import ModelFileError
from tell.files import write_whole


def write_checkpoint(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and JSON-able facts; a reader never sees half of them.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "run.safetensors"
    >>> write_checkpoint(file, {"a": torch.ones(2)}, {"epoch": 3})
    >>> read_checkpoint(file)
    ({'a': tensor([1., 1.])}, {'epoch': 3})
    """
    # Cloned, because safetensors refuses tensors that share memory.
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(facts)
    data = save(plain, metadata={"facts": text, "checksum": checksum(plain, text)})
    write_whole(path, data)


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_checkpoint` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            facts = json.loads(header["facts"])
            if not isinstance(facts, dict):
                raise TypeError("facts that are no object")
            # Files of earlier versions have none.
            if header.get("checksum", None) not in (None, checksum(tensors, header["facts"])):
                raise ValueError("another checksum than it states")
            return tensors, facts
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(
            f"checkpoint {path} must be a file written by tell, got {error}; "
            "delete it to start anew"
        ) from error


def checksum(tensors: Mapping[str, Tensor], facts: str = "") -> str:
    """Digest named tensors in main memory, whatever their order, and a text."""
    digest = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def random_tensors(device: torch.device) -> dict[str, Tensor]:
    """Return the state of torch's generators, from which dropout and sampling draw on `device`."""
    states = {"random": torch.get_rng_state()}
    if device.type == "cuda":
        states["random.cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["random.mps"] = torch.mps.get_rng_state()
    return states


def restore_random(tensors: Mapping[str, Tensor], device: torch.device) -> None:
    """Put the generators back; that of a device only where the state was kept on such a one."""
    torch.set_rng_state(tensors["random"])
    kept = tensors.get(f"random.{device.type}")
    if kept is not None and device.type == "cuda":
        torch.cuda.set_rng_state(kept, device)
    elif kept is not None:
        torch.mps.set_rng_state(kept)


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's running averages under the names "<parameter>.<average>"."""
    return {
        f"{number}.{name}": torch.as_tensor(value)
        for number, entries in optimizer.state_dict()["state"].items()
        for name, value in entries.items()
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the running averages back, in the memory layout of their parameters."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        parameter = parameters[int(number)]
        if value.shape == parameter.shape:
            value = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
