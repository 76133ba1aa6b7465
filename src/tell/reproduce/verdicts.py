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
from tell.files import write_whole
from tell.reproduce.descent import Descent, best_centers, judged, starting_layer, walk
from tell.reproduce.results import environment
from tell.reproduce.spec import Scale, Spec
from tell.reproduce.wording import template


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
    write_whole(_file(folder, scale), json.dumps(content, indent=1).encode())


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
    return "\n".join([*lines, "", _words(verdicts)])


def _words(verdicts: Sequence[dict[str, Any]]) -> str:
    """What the table comes to, in the words of the template."""
    soft = [v for v in verdicts if v["temperature"] > 0]
    return template("theory.md").substitute(
        total=len(verdicts),
        proof=sum(v["largest_gradient"] <= v["epsilon"] for v in verdicts),
        stated=sum(v["largest_gradient"] <= v["stated_epsilon"] for v in verdicts),
        below=sum(v["below_bound"] for v in verdicts),
        sharp=sum(v["below_sharp_bound"] for v in verdicts),
        broken=sum(v["not_convex"] > 0 for v in soft),
        soft=len(soft),
    )
