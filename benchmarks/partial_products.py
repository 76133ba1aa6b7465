"""Whether a partial product pays: x·c ≤ x₁·c₁ + ‖x₂‖‖c₂‖ tells which centres may be the nearest.

Rows and centres are rotated so that the centres' variance comes first; what the bound does not rule
out is multiplied in full. Compared with all products and their argmax, in processor seconds of one
thread, so that other work on the machine matters little; it takes about a minute.

    python benchmarks/partial_products.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recording import record
from shallow import Case, planted
from tell import TELL

CASES = {
    "300k x 128, k=1000": (Case(300_000, 128, 1000), 32_768),
    "100k x 768, k=256": (Case(100_000, 768, 256, embedding=True), 16_384),
}
SHARES = (1 / 8, 1 / 4, 1 / 2)  # of the columns, that are multiplied first
SLACK = 1e-5  # of scores of unit vectors: for rounding
MANY = 0.25  # of all pairs left: the rest of the product costs less than one by one


def best(call: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Return the least processor seconds of several calls, and what the last one gave."""
    times, found = [], None
    for _ in range(rounds):
        began = time.process_time()
        found = call()
        times.append(time.process_time() - began)
    return min(times), found


def in_full(x: Tensor, centers: Tensor, block: int) -> Tensor:
    """Return the nearest centre of each row by all products."""
    parts = [(part @ centers.T).numpy().argmax(axis=1) for part in x.split(block)]
    return torch.from_numpy(np.concatenate(parts))


def pruned(
    x: Tensor, centers: Tensor, first: int, block: int, guess: Tensor
) -> tuple[Tensor, float]:
    """Return the same by a product of the first columns, and the share of pairs that it leaves.

    `guess` (n,) is a centre that is near, as the step before knows one.
    """
    ends = torch.linalg.vector_norm(centers[:, first:], dim=1, keepdim=True)
    begins, rest = torch.cat([centers[:, :first], ends], dim=1), centers[:, first:].contiguous()
    labels, left = [], 0
    for part, near in zip(x.split(block), guess.split(block), strict=True):
        length = torch.linalg.vector_norm(part[:, first:], dim=1, keepdim=True)
        bound = torch.cat([part[:, :first], length], dim=1) @ begins.T
        own = (part * centers[near]).sum(dim=1, keepdim=True)
        row, center = (bound >= own - SLACK).nonzero(as_tuple=True)
        left += len(row)
        if len(row) > MANY * bound.numel():
            scores = bound - length * ends.T + part[:, first:] @ rest.T
        else:
            scores = torch.full_like(bound, -2.0)
            for some, its in zip(row.split(1 << 15), center.split(1 << 15), strict=True):
                scores[some, its] = (part[some] * centers[its]).sum(dim=1)
        labels.append(torch.from_numpy(scores.numpy().argmax(axis=1)))
    return torch.cat(labels), left / (len(x) * len(centers))


def measure(case: Case, rows: int, rounds: int) -> dict[str, Any]:
    """Return the times of both ways, and that of the rotation."""
    X = planted(case, "sphere")
    model = TELL(case.clusters, tol=0.1, n_init=1, random_state=0).fit(X)
    x, centers = torch.from_numpy(X[:rows].copy()), torch.from_numpy(model.cluster_centers_)
    rotation = torch.linalg.eigh((centers.T @ centers).double())[1].flip(1).float().contiguous()
    block = max(1024, (1 << 18) // case.clusters)
    whole, right = best(lambda: in_full(x, centers, block), rounds)
    turning, turned = best(lambda: x @ rotation, rounds)
    found: dict[str, Any] = {"rows": rows, "all": whole, "rotation": turning, "partial": []}
    for share in SHARES:
        first = int(share * case.features)
        seconds, (labels, left) = best(
            lambda first=first: pruned(turned, centers @ rotation, first, block, right), rounds
        )
        lost = ((x * centers[right]).sum(dim=1) - (x * centers[labels]).sum(dim=1)).max()
        if lost > SLACK:
            raise RuntimeError(f"a label was wrong by {float(lost)}")
        found["partial"].append({"columns": first, "seconds": seconds, "left": left})
        print(f"{first} columns: {seconds / whole:.2f} of {whole:.3f} s, {left:.1%} of pairs left")
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    began = time.perf_counter()
    torch.set_num_threads(1)
    results = {name: measure(case, rows, rounds) for name, (case, rows) in CASES.items()}
    record("partial_products", {"rounds": rounds, "threads": 1}, results, began=began)


if __name__ == "__main__":
    main()
