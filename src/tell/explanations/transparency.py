"""The model itself: the four parts that the paper names, with this model's actual numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tell.contract import Record, Run
from tell.explanations.scan import Scan
from tell.explanations.view import EncodedInput, Floats, ModelView
from tell.explanations.words import percent, short

CLUSTERING = "clustering"
# Terms of an objective beside it, in words.
_TERMS = {
    "reconstruction": "the reconstruction error (how far the decoder's picture of a row is off)",
    "distil": "the cross-entropy of its assignment to a partition of the neighbour graph",
}
# What a record of an epoch holds beside losses and metrics.
_NOT_CURVES = frozenset(
    [
        "epoch",
        "iteration",
        "step",
        "rows",
        "rate",
        "seconds",
        "run",
        "kept",
        "revived",
        "bound",
        "rows_per_second",
        "bytes",
        "workers",
    ]
)


@dataclass(frozen=True, eq=False)
class Part:
    """One part of the layer: what it is, its formula, and its numbers in this model."""

    name: str
    formula: str
    meaning: str
    numbers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class ModelFacts:
    """The model as it decides.

    Attributes
    ----------
    kind, geometry, n_clusters, n_features, temperature : what it is
    centers_from : who draws the centres in the data's units: the "model" itself, its "decoder", or,
        where nothing can, the "members" by their mean
    loss : mean clustering loss over all explained rows, that of the hard assignment as in `fit`;
        the only loss that a report states
    parts : input, weight, activation and loss (section 3.3 of the paper)
    history : training curves of the run that was kept: name → one value per step or epoch. Steps
        of `TELL` are taken on samples that grow; the last value is the loss of all rows of the fit
    runs : restarts and the choice between them
    parameters : the options it was made with, as text
    similarity : (k, k) cosines between centres on the sphere, else distances
    """

    kind: str
    geometry: str
    n_clusters: int
    n_features: int
    temperature: float
    centers_from: str
    loss: float
    parts: tuple[Part, ...]
    history: Mapping[str, tuple[float, ...]]
    runs: tuple[Run, ...]
    parameters: Mapping[str, str]
    similarity: Floats


def describe_model(view: ModelView, found: Scan) -> ModelFacts:
    """Facts of the model, with the loss over the scanned rows."""
    loss = float(found.moments.squared.sum() / found.n_rows)
    return ModelFacts(
        kind=view.about.kind,
        geometry=view.geometry,
        n_clusters=view.n_clusters,
        n_features=found.sample.X.shape[1],
        temperature=view.temperature,
        centers_from=_centers_from(view),
        loss=loss,
        parts=(_input(view, found), _weight(view), _activation(view, found), _loss(view, loss)),
        history=_kept_curves(view),
        runs=view.about.runs,
        parameters={name: repr(value)[:80] for name, value in view.about.settings.items()},
        similarity=_similarity(view),
    )


def _centers_from(view: ModelView) -> str:
    if not view.model.can_decode:
        return "members"
    return "decoder" if isinstance(view.path, EncodedInput) else "model"


def _input(view: ModelView, found: Scan) -> Part:
    steps = []
    if isinstance(view.path, EncodedInput):
        steps.append("an encoder turns every row into an embedding")
    elif view.path.scale is not None:
        steps.append("every column is centred and divided by its standard deviation")
    if view.on_sphere:
        steps.append("every row is brought to unit length, so that only its direction counts")
    meaning = "; ".join(steps) or "rows enter as they are"
    return Part(
        "Input",
        "x with β = ‖x‖² = 1" if view.on_sphere else "x with β = ‖x‖²",
        meaning[0].upper() + meaning[1:] + ".",
        (
            ("Rows", f"{found.n_rows:,}"),
            ("Columns", str(found.sample.X.shape[1])),
            ("Features seen by the layer", str(view.centers.shape[1])),
        ),
    )


def _weight(view: ModelView) -> Part:
    weight, bias = view.weight_and_bias()
    weight = np.where(np.abs(weight) > 1e-12 * np.abs(weight).max(), weight, 0.0)
    low, high = float(bias.min()), float(bias.max())
    constant = view.on_sphere or np.isclose(low, high)
    return Part(
        "Weight",
        "W = 2Ω, b = −‖Ω‖²",
        "The weights are the cluster centres themselves, doubled. "
        + ("The bias is constant." if constant else "The bias follows from the centres."),
        (
            ("W", f"{weight.shape[0]} × {weight.shape[1]}"),
            ("Smallest and largest entry", f"{short(weight.min())} to {short(weight.max())}"),
            ("b", short(low) if constant else f"{short(low)} to {short(high)}"),
        ),
    )


def _activation(view: ModelView, found: Scan) -> Part:
    hard = view.temperature == 0
    rule = (
        "I = the largest entry of Wᵀx + b"
        if hard
        else f"I = softmax((Wᵀx + b) / {view.temperature:g})"
    )
    meaning = (
        "Each row pays all its attention to the nearest centre."
        if hard
        else "Each row spreads its attention over the centres, nearest first."
    )
    numbers = [("Temperature τ", f"{view.temperature:g}")]
    if view.n_clusters > 1:
        numbers.append(("Median margin", short(float(np.median(found.sample.margin)))))
        numbers.append(("Median clearness", percent(float(np.median(found.sample.clearness)))))
    return Part(
        "Activation",
        rule,
        meaning + " This attention is the cluster assignment.",
        tuple(numbers),
    )


def _loss(view: ModelView, loss: float) -> Part:
    numbers = [("Mean loss per row", short(loss))]
    if view.on_sphere:
        numbers.append(("Mean cosine to the own centre", f"{1 - loss / 2:.4f}"))
    # A temperature above 0 softens what the model answers, not what it was fitted to.
    every = "Σ Iⱼ" if view.temperature == 0 else "minⱼ"
    distance = "(2 − Wⱼᵀx)" if view.on_sphere else "(β − Wⱼᵀx − bⱼ)"
    return Part(
        "Loss",
        f"{every} {distance}",
        _minimised(view),
        tuple(numbers),
    )


def _minimised(view: ModelView) -> str:
    """What the loss is, and what part it had in the training, as the model describes it."""
    terms = view.about.minimised
    encoded = isinstance(view.path, EncodedInput)
    distance = f"The squared distance of each {'embedded row' if encoded else 'row'} to its centre"
    if terms == (CLUSTERING,):
        return f"{distance}: the loss of k-means{'' if encoded else ', and nothing else'}."
    others = " and ".join(_TERMS.get(term, term) for term in terms if term != CLUSTERING)
    if not others:
        return f"{distance}. What {view.about.kind} minimised when it was fitted is not known here."
    if CLUSTERING in terms:
        return f"{distance}. Training minimised it together with {others}."
    return f"{distance}, by which runs are compared. Training minimised {others} instead."


def _kept_curves(view: ModelView) -> dict[str, tuple[float, ...]]:
    """Curves of the run that was kept, without the steps that were given up."""
    records = view.about.history
    curves = read_history([record for record in records if record.get("kept", True)])
    if records and "kept" in records[0] and view.about.loss is not None:
        curves["loss"] = (*curves.get("loss", ()), view.about.loss)
    return curves


def read_history(records: Sequence[Record]) -> dict[str, tuple[float, ...]]:
    """Turn one record per epoch into one curve per number.

    >>> read_history([{"epoch": 0, "loss": 2.0}, {"epoch": 1, "loss": 1.5, "note": "x"}])
    {'loss': (2.0, 1.5)}
    """
    curves: dict[str, tuple[float, ...]] = {}
    for name in dict.fromkeys(name for record in records for name in record):
        values = [record[name] for record in records if record.get(name) is not None]
        numbers = [float(value) for value in values if isinstance(value, int | float | np.number)]
        if numbers and len(numbers) == len(values) and name not in _NOT_CURVES:
            curves[str(name)] = tuple(numbers)
    return curves


def _similarity(view: ModelView) -> Floats:
    if view.on_sphere:
        return view.centers @ view.centers.T
    return np.sqrt(view.squared_distances(view.centers))
