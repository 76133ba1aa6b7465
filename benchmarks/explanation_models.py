"""The clusterings that benchmarks/explanations.py explains: fitted once, kept in a folder.

A model behind an encoder takes minutes, so that a run that was interrupted, or that only measures
times, finds it again in benchmarks/results/explanations.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from explanation_sets import Case, Centres, Network
from tell import TELL, DeepTELL, load

KEPT = Path(__file__).parent / "results" / "explanations"


def fitted(case: Case, X: np.ndarray, seed: int, name: str) -> Centres:
    """A `TELL` by its centres, or a `DeepTELL` by its weights."""
    if case.deep:
        return by_weights(deep_model(case, X, seed, name)[0])
    model = TELL(case.k, geometry=case.geometry, n_init=5, random_state=seed).fit(X)
    return Centres(np.asarray(model.cluster_centers_, float), case.geometry)


def deep_model(case: Case, X: np.ndarray, seed: int, name: str) -> tuple[DeepTELL, float]:
    """The paper's fully connected network on rows X, and the seconds that its fit took."""
    folder = KEPT / f"{name}, {len(X)} rows, seed {seed}"
    clock = folder.with_name(f"{folder.name}.seconds")
    if clock.exists():
        return load(folder), float(clock.read_text())
    began = time.perf_counter()
    model = DeepTELL(case.k, encoder="fcn", n_init=1, random_state=seed).fit(X.astype(np.float32))
    seconds = time.perf_counter() - began
    KEPT.mkdir(parents=True, exist_ok=True)
    model.save(folder)
    clock.write_text(f"{seconds:.1f}\n")
    return model, seconds


def by_weights(model: DeepTELL) -> Network:
    """A fully connected model as matrices, which programs without torch can ask too."""
    path = model.input_path
    linear = [part for part in path.encoder.modules() if isinstance(part, torch.nn.Linear)]
    layers = [(part.weight.detach().numpy(), part.bias.detach().numpy()) for part in linear]
    # The model's own scale, (x − offset) / scale, goes into the first layer.
    scale, offset = (
        np.broadcast_to(a, model.input_shape_).ravel() for a in (path.scale, path.offset)
    )
    weight, bias = layers[0]
    layers[0] = weight / scale, bias - weight @ (offset / scale)
    single = tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers)
    return Network(np.asarray(model.cluster_centers_, float), "sphere", single)


def matched(model: Centres, other: Centres, X: np.ndarray) -> Centres:
    """The other model with its clusters numbered like this one's."""
    overlap = np.zeros((len(model.centers), len(other.centers)))
    np.add.at(overlap, (model.predict(X), other.predict(X)), 1)
    order = linear_sum_assignment(-overlap)[1]
    return Centres(other.centers[order], other.geometry)
