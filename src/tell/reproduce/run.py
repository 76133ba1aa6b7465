"""Run what is missing: every run of the wanted tables once, its result kept at once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tell.baselines import METHODS, make
from tell.baselines.pretraining import DeepClusterer
from tell.core.objective import table_loss
from tell.estimators import TELL, DeepTELL
from tell.estimators.deep.recipes import RECIPES
from tell.exceptions import DataUnavailableError
from tell.metrics import evaluate
from tell.reproduce.jobs import ProcessEndedError, side_by_side
from tell.reproduce.recording import Recorder
from tell.reproduce.results import (
    Result,
    environment,
    read_result,
    run_file,
    write_result,
)
from tell.reproduce.spec import Run, Scale, Spec
from tell.reproduce.workspace import (
    BATCH,
    Inputs,
    Workspace,
    feature_file,
    feature_seed,
    pretraining_file,
)

Watch = Callable[[Run, int, int, Result], None]


def plan(specs: Iterable[Spec], scale: Scale, only: Sequence[str] = ()) -> list[Run]:
    """Every run behind these tables, each once, whichever tables share it, first seeds first.

    `only` keeps the runs whose place (`cpu/mnist/kmeans/seed-0`) contains one of these texts.

    >>> from tell.reproduce.spec import load_scale, load_targets
    >>> smoke = load_scale("smoke")
    >>> len(plan(load_targets(["fig6", "fig8"], smoke), smoke))
    1
    """
    runs: dict[str, Run] = {}
    for spec in specs:
        for _, _, cell in spec.cells(scale):
            runs |= {run.place: run for run in cell}
    wanted = (run for run in runs.values() if not only or any(t in run.place for t in only))
    return sorted(wanted, key=lambda run: run.seed)


def run_missing(
    runs: Sequence[Run],
    workspace: Workspace,
    watch: Watch = lambda run, number, total, result: None,
    *,
    jobs: int = 1,
    retry: bool = False,
) -> list[Result]:
    """Run what has no result yet; a failure is a result too, and the others go on.

    Parameters
    ----------
    watch : callable (run, number, total, result)
        Hears of every result: first of those that are there, then of the others as they come.
    jobs : int
        Runs side by side, each in a process with one thread; 1 runs them in this process.
    retry : bool
        Try again what has failed. What lacked its data is tried again in any case, and so is what
        saw other features than those of the file that is given now.
    """
    missing: list[Run] = []
    here: list[tuple[Run, Result]] = []
    for run in runs:
        result = read_result(workspace.folder, run)
        if result is None or _is_open(run, result, workspace, retry=retry):
            missing.append(run)
        else:
            here.append((run, result))
    results = []
    with closing(_executed(missing, workspace, jobs)) as new:
        for number, (run, result) in enumerate(chain(here, new), start=1):
            watch(run, number, len(runs), result)
            results.append(result)
    return results


def _executed(
    runs: Sequence[Run], workspace: Workspace, jobs: int
) -> Generator[tuple[Run, Result], None, None]:
    if jobs == 1:
        for run in runs:
            yield run, keep(run, workspace)
        return
    work = partial(keep, workspace=replace(workspace, visible=False))
    for run, answer in side_by_side(work, runs, jobs, makes=partial(_makes, workspace)):
        if isinstance(answer, ProcessEndedError):
            answer = Result("failed", reason=str(answer), facts=environment())
            write_result(workspace.folder, run, answer)
        yield run, answer


def keep(run: Run, workspace: Workspace) -> Result:
    """Run once and keep the result."""
    result = execute(run, workspace)
    write_result(workspace.folder, run, result)
    return result


def _makes(workspace: Workspace, run: Run) -> tuple[str, int] | None:
    """The data and seed of an autoencoder that a run may have to train and shares with others."""
    estimator, network = run.method.estimator, run.method.features
    deep = estimator in METHODS and issubclass(METHODS[estimator].build, DeepClusterer)
    learned = network in run.scale.feature_epochs and not workspace.sees_given(run)
    if deep or (
        learned and not feature_file(workspace.folder, run, workspace.precision_of(run)).exists()
    ):
        return run.data, feature_seed(run)
    return None


def _is_open(run: Run, result: Result, workspace: Workspace, *, retry: bool) -> bool:
    open_ends = {"unavailable", "failed"} if retry else {"unavailable"}
    return result.status in open_ends or _saw_others(run, result, workspace)


def _saw_others(run: Run, result: Result, workspace: Workspace) -> bool:
    return workspace.sees_given(run) and result.facts.get("features") != workspace.given_digest


def execute(run: Run, workspace: Workspace) -> Result:
    """Run once; whatever a method raises becomes the reason of a failed result."""
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    facts = {"started": started, **environment()}
    try:
        inputs = workspace.inputs(run)
    except DataUnavailableError as error:
        return Result("unavailable", reason=_one_line(error), facts=facts)
    facts |= {"rows": len(inputs.X), "shape": list(inputs.X.shape[1:])}
    facts["precision"] = workspace.precision_of(run)
    if workspace.sees_given(run):
        facts["features"] = workspace.given_digest
    begun = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a method that did not converge shows in its numbers
            protocol = {"batch": _batch, "online": _online}[run.method.protocol]
            result = protocol(run, inputs, workspace)
    except Exception as error:  # any failure of a method is a result of the experiment
        result = Result("failed", reason=_one_line(error) or type(error).__name__)
    return replace(result, seconds=time.perf_counter() - begun, facts=facts)


def _batch(run: Run, inputs: Inputs, workspace: Workspace) -> Result:
    """Cluster all rows and score all labels."""
    deep = run.method.estimator == "deep-tell"
    X = inputs.X if deep else inputs.X.reshape(len(inputs.X), -1)
    model = _deep(run, inputs, workspace) if deep else _shallow(run, inputs.n_clusters, workspace)
    labels = model.fit_predict(X)
    loss = getattr(model, "loss_", None)
    of_paper = isinstance(model, (TELL, DeepTELL))
    return Result(
        "done",
        scores=evaluate(inputs.y, labels).as_dict(),
        loss=loss,
        table_loss=table_loss(model.loss_, inputs.n_clusters) if of_paper else None,
        runs=getattr(model, "runs_", []),
        history=getattr(model, "history_", []),
        note=_note(model),
    )


def _online(run: Run, inputs: Inputs, workspace: Workspace) -> Result:
    """Learn from a few rows of the last seventh, then meet the others once, batch by batch.

    Every batch is labelled before it is learned from, so that no row is scored with its own help.
    """
    X = inputs.X.reshape(len(inputs.X), -1)
    arriving = len(X) * 6 // 7  # MNIST: the 60,000 training digits
    draw = np.random.default_rng(run.seed)
    known = arriving + draw.permutation(len(X) - arriving)[: run.scale.online_rows]
    order = draw.permutation(arriving)
    model = _shallow(run, inputs.n_clusters, workspace).fit(X[known])
    labels: list[NDArray[Any]] = []
    for start in range(0, arriving, BATCH):
        batch = X[order[start : start + BATCH]]
        labels.append(model.predict(batch))
        if isinstance(model, TELL):
            model.partial_fit(batch)
    return Result("done", scores=evaluate(inputs.y[order], np.concatenate(labels)).as_dict())


def _shallow(run: Run, n_clusters: int, workspace: Workspace) -> Any:
    method = run.method
    if method.estimator == "tell":
        return TELL(n_clusters, random_state=run.seed, **method.options)
    model = make(method.estimator, n_clusters, random_state=run.seed, **method.options)
    if isinstance(model, DeepClusterer):
        precision = workspace.precision_of(run)
        file = pretraining_file(
            workspace.folder, run, model.pretrain_epochs, model.hidden, precision
        )
        model.set_params(checkpoint=file, precision=precision, verbose=int(workspace.visible))
    return model


def _deep(run: Run, inputs: Inputs, workspace: Workspace) -> DeepTELL:
    """Build DeepTELL for one run; seeds are separate runs here, so each has a single start."""
    options = dict(run.method.options)
    own = {name: options.pop(name) for name in ("encoder", "augment") if name in options}
    recipe: Any = RECIPES[options.pop("recipe")](**{**options, "n_init": 1})
    checkpoint = run_file(workspace.folder, run, f".{run.fingerprint}")
    snapshots = None
    if run.method.snapshots and run.seed == 0:
        snapshots = run_file(workspace.folder, run, ".snapshots.npz")
        if not checkpoint.exists():
            snapshots.unlink(missing_ok=True)  # of an earlier run
    recorder = Recorder(
        torch.from_numpy(inputs.X), inputs.y, inputs.n_clusters, snapshots=snapshots
    )
    return DeepTELL(
        inputs.n_clusters,
        recipe=recipe,
        checkpoint=checkpoint,
        hooks=[recorder],
        precision=workspace.precision,
        random_state=run.seed,
        verbose=int(workspace.visible),
        **own,
    )


def _note(model: Any) -> str:
    extended = getattr(model, "extended_", None)
    if extended is None or not extended.any():
        return ""
    return (
        f"clustered a sample of {int((~extended).sum())} rows; the other rows took the label of "
        "the nearest sampled row"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
