"""`docs/reproduction.md`: what was run, what came out, where and why it differs. Generated."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tell.reproduce.figures import figure_file
from tell.reproduce.results import Result, finished, read_result, write_bytes
from tell.reproduce.run import plan
from tell.reproduce.score_tables import build_table, to_latex, to_markdown
from tell.reproduce.spec import Scale, Spec
from tell.reproduce.verdicts import read_verdicts, theory_page

TABLE_KINDS = ("scores", "runs")


@dataclass(frozen=True)
class Status:
    """How far one table or figure is."""

    spec: Spec
    total: int
    done: int
    failed: int
    unavailable: int
    seconds: float

    @property
    def missing(self) -> int:
        """Runs that have not been tried."""
        return self.total - self.done - self.failed - self.unavailable


def status_of(spec: Spec, scale: Scale, folder: Path) -> Status:
    """Count what is there; the theory is one run."""
    if spec.kind == "theory":
        done = int(bool(read_verdicts(folder, spec, scale)))
        return Status(spec, 1, done, 0, 0, 0.0)
    runs = plan([spec], scale)
    found = [result for run in runs if (result := read_result(folder, run)) is not None]
    count = Counter(result.status for result in found)
    seconds = sum(result.seconds for result in found)
    return Status(spec, len(runs), count["done"], count["failed"], count["unavailable"], seconds)


def write_tables(specs: Iterable[Spec], scale: Scale, folder: Path) -> list[Path]:
    """Render the tables that have at least one number, in Markdown and LaTeX."""
    written = []
    for spec in specs:
        if spec.kind in TABLE_KINDS and finished(folder, plan([spec], scale)):
            table = build_table(spec, scale, folder)
            for ending, text in (("md", to_markdown(table)), ("tex", to_latex(table))):
                file = folder / scale.name / "tables" / f"{spec.name}.{ending}"
                write_bytes(file, text.encode())
                written.append(file)
    return written


def write_page(specs: Sequence[Spec], scale: Scale, folder: Path, page: Path) -> None:
    """Write the page of one scale from the results in `folder`."""
    parts = [_opening(specs, scale, folder)]
    for spec in specs:
        parts.append(_section(spec, scale, folder, page))
        if spec.name == "table3":
            parts.append(_all_super_classes(specs, scale, folder) + "\n")
    write_bytes(page, ("\n".join(parts).rstrip() + "\n").encode())


def _opening(specs: Sequence[Spec], scale: Scale, folder: Path) -> str:
    lines = [
        "# The paper, reproduced",
        "",
        "<!-- Written by `tell reproduce --page`; change the specs or the results, not this. -->",
        "",
        f"Every table and figure of the paper at the scale `{scale.name}`: {scale.about}. A number "
        "in bold is ours; the paper's and the difference (ours − paper) stand below it. Of several "
        "seeds TELL reports the run with the smallest clustering loss, as in the paper, VaDE that "
        "with the largest lower bound; the others and the † rows report the median. ACC, NMI and "
        "the other measures are in percent. Hours are those of the fits, without the features that "
        "a method sees; a run that two tables share counts in both."
        + (" The data is not the paper's: only look whether it runs." if scale.data else ""),
        "",
        "| What | Title | Runs done | Failed | Not run | Hours |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for spec in specs:
        s = status_of(spec, scale, folder)
        rest = s.missing + s.unavailable
        lines.append(
            f"| [{spec.place}](#{spec.name}) | {spec.title} | {s.done}/{s.total} | {s.failed} | "
            f"{rest} | {s.seconds / 3600:.1f} |"
        )
    machines = _machines(specs, scale, folder)
    return "\n".join([*lines, "", *machines, *_in_short(specs, scale, folder), _differences(), ""])


def _in_short(specs: Sequence[Spec], scale: Scale, folder: Path) -> list[str]:
    """What the tables come to: where TELL stands, and which of the paper's conclusions hold."""
    lines = []
    for spec in specs:
        if spec.kind in TABLE_KINDS:
            table = build_table(spec, scale, folder)
            lines += [f"- [{spec.place}](#{spec.name}): {text}" for text in table.findings]
    together = _all_super_classes(specs, scale, folder)
    lines += [f"- {together}"] if together else []
    return ["## In short", "", *lines, ""] if lines else []


def _differences() -> str:
    return """## Where we differ on purpose

- **Recipe.** At the scale `cpu` TELL is trained by the fast recipe (a partition from the neighbour
  graph, imprinted and then corrected by the network), not by 3,000 epochs from random weights.
  The graph compares images by their edges and settles most of the result. `L_clu` has no weight in
  this recipe: a cross-entropy to the partition stands in its place. Read TELL's rows as those of
  this recipe, not of the paper's loss.
- **The choice by `L_clu`.** It is made as in the paper, but over the fast recipe's seeds it says
  little: what is not minimised depends on where the centres and the network happened to start. The
  notes below tables 2 and 3 count how often the same seed is chosen on unrelated sets, and S1 and
  S2 say whether the choice goes with ACC. For a fair look, take all runs in the JSON files.
- **`full`** is the paper's procedure for TELL with the details of the authors' program, and 3,000
  epochs for the autoencoders of the others. Not as published are there: DEC and VaDE, which have
  the epochs of their own papers; the two-stage rows of table 4, whose centres come in closed form;
  LRR, LSR and ZAC, which cluster a sample; and the parameters of the classic methods (below).
- **Features of the classic methods.** The paper's k-means row in table 1 equals k-means on FCN
  features in table 5, not k-means on pixels in table 4. So here all classic methods of tables 1 to
  3 see the 10 features of an FCN autoencoder trained by reconstruction, without dropout and without
  the last step to the unit sphere; at the scale `cpu` it is the very one that DEC and VaDE start
  from. The features of the authors are not published; ours differ, and with them all these rows.
- **Shorter training of the others.** At the scale `cpu` the autoencoders have some epochs or tens
  of them (`specs/scales.toml`), where the paper's have thousands; DEC and VaDE cluster for some
  tens (`specs/methods.toml`), where their papers have hundreds; VaDE starts from the likeliest of
  ten mixtures with full covariances. Most rows of tables 1 to 3 but TELL's are one run each, and a
  lead over a row that lies below the paper's own is no evidence.
- **Other rivals.** The classic rows see our features, not the authors', and may lie far above the
  paper's, so that TELL's lead is another one than in print. "In short" counts how many of them do,
  and in how many columns TELL has the largest ACC.
- **Parameters.** The paper tunes the classic methods and prints what it chose beside table 1; here
  and at every scale they keep the defaults of `tell.baselines`, the same for all sets. (LSR's two
  ridges, 0.4 and 0.1, happen to be those that the paper prints for MNIST.) Methods whose memory
  grows as n² cluster a sample, which the notes below a table say.
- **Table 4, †.** Each batch is labelled before it is learned from. The paper does not say which
  comes first. IIC's features need its own network and a long training: they come from a file
  (`--features`), and without one these columns stay empty.
- **Table 6.** At the scale `cpu` it uses the paper's own recipe on the fully connected network
  with a few epochs (`specs/methods.toml` says how many), because the ablation is about that
  recipe's optimiser. Compare the medians in the claims below it, not the height of the rows nor
  their order: so early `L_clu` chooses badly, and the seeds differ by more than the rows. In this
  recipe Adadelta's step grows with the gradient, and without the normalisation it throws the
  centres about, which a note below the table counts. Adam's step hardly grows with it, which may
  be why the normalisation changes little there. The p beside each verdict says how much it is
  worth.
- **S1 and S2.** Our runs are other seeds of another recipe, which reports `L_clu` (in the paper's
  normalisation) but does not minimise it: neither its values nor its rank correlation with ACC tell
  anything about the paper's own runs.
- **Figure 7(a) and 7(b)** of the paper are `fig7` and `fig8` here."""


def _machines(specs: Sequence[Spec], scale: Scale, folder: Path) -> list[str]:
    found = finished(folder, plan(specs, scale))
    if not found:
        return ["Nothing has been run at this scale yet: every cell below says so.", ""]
    machines = Counter(_machine(result) for result in found)
    return [f"{count} runs on {name}." for name, count in machines.items()] + [""]


def _machine(result: Result) -> str:
    facts: dict[str, Any] = result.facts
    machine, versions = facts["machine"], facts["versions"]
    return (
        f"{machine['system']}, {machine['cores']} cores ({machine['threads']} threads), Python "
        f"{versions['python']}, torch {versions['torch']}, scikit-learn {versions['scikit-learn']}"
    )


def _all_super_classes(specs: Sequence[Spec], scale: Scale, folder: Path) -> str:
    """Sum up tables 2 and 3: TELL on all twenty super-classes of CIFAR-100."""
    halves = [build_table(s, scale, folder) for s in specs if s.name in ("table2", "table3")]
    cells = [
        entry
        for table in halves
        for label, entries in table.lines
        if label == "TELL"
        for entry in entries[: len(table.spec.columns)]
    ]
    ours = [entry.ours for entry in cells if entry.ours is not None]
    if len(halves) < 2 or len(ours) < len(cells):
        return ""
    printed = fmean(entry.paper or 0.0 for entry in cells)
    reached = sum((entry.difference or 0.0) >= 0 for entry in cells)
    return (
        f"All {len(cells)} super-classes of CIFAR-100 together: TELL's mean ACC is "
        f"{fmean(ours):.2f} (paper {printed:.2f}); at or above the paper in {reached} of "
        f"{len(cells)}."
    )


def _section(spec: Spec, scale: Scale, folder: Path, page: Path) -> str:
    def link(file: Path) -> str:
        return Path(os.path.relpath(file, page.parent)).as_posix()

    lines = [f'<a id="{spec.name}"></a>', "", f"## {spec.place}: {spec.title}", ""]
    out = Path(os.path.relpath(folder)).as_posix()
    command = f"Run it: `tell reproduce {spec.name} --scale {scale.name} --out {out}`."
    if spec.kind in TABLE_KINDS:
        latex = folder / scale.name / "tables" / f"{spec.name}.tex"
        sets = dict.fromkeys(column.data for column in spec.columns)
        results = ", ".join(f"[{data}]({link(folder / scale.name / data)})" for data in sets)
        command += f" Every run as JSON: {results}; the table in [LaTeX]({link(latex)})."
        return "\n".join([*lines, command, "", to_markdown(build_table(spec, scale, folder))])
    names = ["theory", "toy"] if spec.kind == "theory" else [spec.name]
    verdicts = read_verdicts(folder, spec, scale) if spec.kind == "theory" else []
    if verdicts:
        lines += [theory_page(verdicts)]
    pictures = [figure_file(name, scale, folder) for name in names]
    for file in (file for file in pictures if file.exists()):
        about = spec.title if len(pictures) == 1 else f"{spec.title} ({file.stem})"
        lines += [f"![{about}]({link(file)})", ""]
    if not any(file.exists() for file in pictures):
        lines += ["Not run yet.", ""]
    lines += [spec.remark, ""] if spec.remark else []
    return "\n".join([*lines, command, ""])
