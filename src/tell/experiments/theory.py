"""The theory held against recorded runs, and said in plain words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tell.data import datasets
from tell.experiments.descent import Descent, best_centers, descend, starting_layer
from tell.experiments.results import environment, write_bytes
from tell.experiments.spec import Scale, Spec

VERDICTS = "verdicts.json"


def record_descents(spec: Spec, scale: Scale) -> list[Descent]:
    """Run the layer alone by every rule, start and temperature of the spec."""
    data = datasets.load(spec.columns[0].data)
    X = np.asarray(data.X[: scale.rows], dtype=np.float64)
    x = torch.nn.functional.normalize(torch.from_numpy(X), dim=1)
    n_clusters = len(data.target_names)
    reference = best_centers(x, n_clusters)
    return [
        descend(
            x,
            starting_layer(x, n_clusters, start, temperature=temperature),
            rule=rule,
            eta=eta,
            start=start,
            steps=scale.descent_steps,
            reference=reference,
        )
        for rule, eta in spec.descent["rules"].items()
        for start in spec.descent["starts"]
        for temperature in spec.descent["temperatures"]
    ]


def write_verdicts(folder: Path, scale: Scale, runs: Sequence[Descent]) -> None:
    """Keep the verdicts of all runs."""
    content = {**environment(), "verdicts": [run.verdict() for run in runs]}
    file = folder / scale.name / "theory" / VERDICTS
    write_bytes(file, json.dumps(content, indent=1).encode())


def read_verdicts(folder: Path, scale: Scale) -> list[dict[str, Any]]:
    """Read them; empty if the theory was not run at this scale."""
    file = folder / scale.name / "theory" / VERDICTS
    return list(json.loads(file.read_bytes())["verdicts"]) if file.exists() else []


def theory_page(verdicts: Sequence[dict[str, Any]]) -> str:
    """Write the table of verdicts and what follows from it."""
    head = (
        "| Step | Start | τ | largest ‖∇L‖ | ε (theorem 1) | 1 + 2 ln k | gap | bound, ε | "
        "its limit (lemmas) | bound, met gradients | steps that are not convex |"
    )
    lines = [head, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for v in verdicts:
        held = f"{v['sharp_bound']:.3f}" + ("" if v["below_sharp_bound"] else " **broken**")
        lines.append(
            f"| {v['rule']} | {v['start']} | {v['temperature']:g} | {v['largest_gradient']:.3f} | "
            f"{v['epsilon']:.2f} | {v['gradient_limit']:.2f} | {v['gap']:.4f} | {v['bound']:.2f} | "
            f"{v['limit']:.2f} | {held} | {v['not_convex']:.0%} |"
        )
    return "\n".join([*lines, "", *_words(verdicts)]) + "\n"


def _words(verdicts: Sequence[dict[str, Any]]) -> list[str]:
    gradients = sum(v["largest_gradient"] <= v["epsilon"] for v in verdicts)
    below = sum(v["below_bound"] for v in verdicts)
    sharp = sum(v["below_sharp_bound"] for v in verdicts)
    convex = sum(v["not_convex"] > 0 for v in verdicts)
    total = len(verdicts)
    return [
        f"- **Theorem 1.** No gradient was longer than ε in {gradients} of {total} runs. The proof "
        "differentiates with respect to z only; with respect to W a factor ‖x‖/τ is missing, so ε "
        "can fail (one row on its only centre: ε = τ, gradient 1). The column 1 + 2 ln k (1 at "
        "τ = 0) holds for every row, centre and τ.",
        "- **Theorem 2.** The best loss so far stayed below the bound with ε in "
        f"{below} of {total} runs. That says little: on the sphere the loss is at most 4, and the "
        "bound with ε is often no smaller than what any clustering reaches. With the gradients "
        "that were really met, the bound is sharp enough to be wrong: it held in "
        f"{sharp} of {total} runs.",
        f"- **Where the proof does not apply.** In {convex} of {total} runs some steps break the "
        "inequality L* ≥ L_t + ⟨∇L_t, W* − W_t⟩ that the proof takes from convexity. The hard loss "
        "is a minimum of linear functions, hence concave: a run can settle in a poor optimum (from "
        "random directions one centre often wins all rows) and stay there, whatever the step. The "
        "bound then falls below the gap, and restarts or k-means++ help where theory does not.",
    ]
