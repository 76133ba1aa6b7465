"""`tell fit --like`: a new model of new rows whose clusters keep the numbers of an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tell.exceptions import ParameterError

if TYPE_CHECKING:
    from typer import Context

# What an earlier model leaves open; every other option of `tell fit` would do nothing.
OPEN = {"data", "like", "clusters", "label", "seed", "memory", "folder", "force", "json", "quiet"}


def check_takes_over(context: Context) -> None:
    """Refuse options that say what the earlier model says."""
    named = []
    for option in context.command.params:
        name = str(option.name)
        source = context.get_parameter_source(name)
        if name not in OPEN and source is not None and source.name == "COMMANDLINE":
            off = context.params[name] is False  # --no-prepare
            named.append((option.secondary_opts if off else option.opts)[0])
    if named:
        raise ParameterError(
            f"--like takes over how rows are read, prepared, compared and fitted; leave out "
            f"{', '.join(named)}"
        )


def fit_like(
    earlier: Path,
    data: str,
    folder: Path,
    *,
    clusters: int | None,
    label: str | None,
    seed: int,
    memory: str,
) -> dict[str, Any]:
    """Fit as the earlier model was fitted, starting from it; all that came out, as data."""
    from sklearn.base import clone

    from tell import TELL, load
    from tell.cli.fitting import Remembered, fit_and_save
    from tell.explanations.ancestry import in_words
    from tell.runtime.model_rows import kept, open_like

    old = load(earlier)
    if not isinstance(old, TELL):
        raise ParameterError(
            f"--like needs a model of tell fit without --deep, got a {type(old).__name__}"
        )
    source = open_like(old, data, label=label or None, memory=memory)
    model = clone(old).set_params(
        n_clusters=clusters or old.n_clusters_ - len(old.retired_), random_state=seed, memory=memory
    )
    notes = kept(old)
    result = fit_and_save(
        model,
        Remembered(source, lambda chunk: None),
        folder,
        label=label,
        choice=notes.get("choice"),
        image_size=notes.get("image_size"),
        like=old,
    )
    words = [in_words(entry) for entry in model.lineage_]
    return result | {"lineage": model.lineage_, "lineage_in_words": [*words, ""]}
