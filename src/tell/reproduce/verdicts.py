"""The theory held against recorded runs, and said in plain words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tell.data import datasets
from tell.reproduce.descent import Descent, best_centers, judged, starting_layer, walk
from tell.reproduce.results import environment, write_bytes
from tell.reproduce.spec import Scale, Spec


def record_descents(spec: Spec, scale: Scale) -> list[Descent]:
    """Run the layer alone by every rule, start and temperature of the spec.

    L* is the smallest loss known at a temperature: of ten restarts of the engine and of the ends of
    all runs.
    """
    data = datasets.load(spec.columns[0].data)
    X = np.asarray(data.X[: scale.rows], dtype=np.float64)
    x = torch.nn.functional.normalize(torch.from_numpy(X), dim=1)
    n_clusters = len(data.target_names)
    settings = spec.descent
    kinds = list(product(settings["rules"], settings["starts"], settings["temperatures"]))
    walks = [
        walk(
            x,
            starting_layer(x, n_clusters, start, temperature=temperature),
            rule=rule,
            eta=settings["rules"][rule],
            steps=scale.descent_steps,
        )
        for rule, start, temperature in kinds
    ]
    reference = best_centers(x, n_clusters)
    known = {temperature: [reference] for temperature in settings["temperatures"]}
    for (_, _, temperature), done in zip(kinds, walks, strict=True):
        known[temperature].append(done.end)
    return [
        judged(x, done, known[temperature], rule=rule, start=start)
        for (rule, start, temperature), done in zip(kinds, walks, strict=True)
    ]


def write_verdicts(folder: Path, spec: Spec, scale: Scale, runs: Sequence[Descent]) -> None:
    """Keep the verdicts of all runs, and the curves that figures are drawn from."""
    verdicts = [{**run.verdict(), "curve": run.curve()} for run in runs]
    content = {**environment(), "fingerprint": _fingerprint(spec, scale), "verdicts": verdicts}
    write_bytes(_file(folder, scale), json.dumps(content, indent=1).encode())


def read_verdicts(folder: Path, spec: Spec, scale: Scale) -> list[dict[str, Any]]:
    """Read them; empty if the theory was not run at this scale with these settings."""
    try:
        content = json.loads(_file(folder, scale).read_bytes())
    except (FileNotFoundError, ValueError):
        return []
    fits = isinstance(content, dict) and content.get("fingerprint") == _fingerprint(spec, scale)
    return list(content["verdicts"]) if fits else []


def _file(folder: Path, scale: Scale) -> Path:
    return folder / scale.name / "theory" / "verdicts.json"


def _fingerprint(spec: Spec, scale: Scale) -> str:
    data = [column.data for column in spec.columns]
    settings = [data, scale.rows, scale.descent_steps, spec.descent]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def theory_page(verdicts: Sequence[dict[str, Any]]) -> str:
    """Write the table of verdicts and what follows from it."""
    head = (
        "| Step | Start | τ | largest ‖∇L‖ | ε (proof) | ε (stated) | 1 + 2 ln k | gap | "
        "bound, ε | its limit (lemmas) | bound, met gradients | steps that are not convex |"
    )
    lines = [head, "| --- | --- |" + " ---: |" * 10]
    for v in verdicts:
        held = f"{v['sharp_bound']:.3f}" + ("" if v["below_sharp_bound"] else " **broken**")
        lines.append(
            f"| {v['rule']} | {v['start']} | {v['temperature']:g} | {v['largest_gradient']:.3f} | "
            f"{v['epsilon']:.2f} | {v['stated_epsilon']:.2f} | {v['gradient_limit']:.2f} | "
            f"{v['gap']:.4f} | {v['bound']:.2f} | {v['limit']:.2f} | {held} | "
            f"{v['not_convex']:.0%} |"
        )
    return "\n".join([*lines, "", *_words(verdicts)]) + "\n"


def _words(verdicts: Sequence[dict[str, Any]]) -> list[str]:
    total = len(verdicts)
    below = sum(v["below_bound"] for v in verdicts)
    sharp = sum(v["below_sharp_bound"] for v in verdicts)
    soft = [v for v in verdicts if v["temperature"] > 0]
    broken = sum(v["not_convex"] > 0 for v in soft)
    longest = {
        name: sum(v["largest_gradient"] <= v[name] for v in verdicts)
        for name in ("epsilon", "stated_epsilon")
    }
    return [
        "- **How to read it.** Gap: best loss so far − L*, after the last step. L* is the best "
        "loss that is known at this τ, of ten restarts of k-means and of the ends of all runs; the "
        "true one may be smaller. Rows are digits of unit length, and every step uses all of them.",
        "- **Theorem 1** states z = Wᵀx/τ, its proof has z = (Wᵀx − 2)/τ. No gradient was longer "
        f"than the proof's ε in {longest['epsilon']} of {total} runs, nor than the stated one in "
        f"{longest['stated_epsilon']}. Neither is a bound in general: the proof differentiates "
        "with respect to z only, and with respect to W a factor ‖x‖/τ is missing. A single centre "
        "has a gradient of length 1, while ε is τ for a row on it (proof) or orthogonal to it "
        "(stated). The column 1 + 2 ln k (1 at τ = 0) holds for every row, centre and τ.",
        "- **Theorem 2.** The best loss so far stayed below the bound with the proof's ε in "
        f"{below} of {total} runs. That says little: on the sphere the loss is at most 4, and the "
        "bound with ε is often no smaller than what any clustering reaches. With the gradients "
        "that were really met, the bound is sharp enough to be wrong: it held in "
        f"{sharp} of {total} runs.",
        "- **Where the proof does not apply.** It takes L* ≥ L_t + ⟨∇L_t, W* − W_t⟩ from "
        "convexity. The hard loss (τ = 0) is a minimum of linear functions, hence concave: there "
        "the inequality can only fail, as soon as W* assigns rows otherwise. With τ > 0 it fails "
        f"in some steps of {broken} of {len(soft)} runs. A run can settle in a poor optimum (from "
        "random directions one centre often wins all rows) and stay there, whatever the step. The "
        "bound then falls below the gap, and restarts or k-means++ help where theory does not.",
    ]
