"""`docs/reproduction.md`: what was run, what came out, where and why it differs. Generated."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tell.files import write_whole
from tell.reproduce.figures import figure_file
from tell.reproduce.results import Result, finished, read_result
from tell.reproduce.run import plan
from tell.reproduce.score_tables import build_table, to_latex, to_markdown
from tell.reproduce.spec import Scale, Spec
from tell.reproduce.verdicts import read_verdicts, theory_page
from tell.reproduce.wording import template

TABLE_KINDS = ("scores", "runs")
OTHER_DATA = " The data is not the paper's: only look whether it runs."


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
                write_whole(file, text.encode())
                written.append(file)
    return written


def write_page(specs: Sequence[Spec], scale: Scale, folder: Path, page: Path) -> None:
    """Write the page of one scale from the results in `folder`."""
    sections = []
    for spec in specs:
        sections.append(_section(spec, scale, folder, page))
        if spec.name == "table3":
            sections.append(_all_super_classes(specs, scale, folder) + "\n")
    text = template("page.md").substitute(
        scale=scale.name,
        about=scale.about,
        caution=OTHER_DATA if scale.data else "",
        status="\n".join(_status_line(spec, scale, folder) for spec in specs),
        machines="\n".join(_machines(specs, scale, folder)),
        findings="\n".join(_in_short(specs, scale, folder)),
        sections="\n".join(sections),
    )
    write_whole(page, (text.rstrip() + "\n").encode())


def _status_line(spec: Spec, scale: Scale, folder: Path) -> str:
    s = status_of(spec, scale, folder)
    rest = s.missing + s.unavailable
    return (
        f"| [{spec.place}](#{spec.name}) | {spec.title} | {s.done}/{s.total} | {s.failed} | "
        f"{rest} | {s.seconds / 3600:.1f} |"
    )


def _in_short(specs: Sequence[Spec], scale: Scale, folder: Path) -> list[str]:
    """What the tables come to: where TELL stands, and which of the paper's conclusions hold."""
    lines = []
    for spec in specs:
        if spec.kind in TABLE_KINDS:
            table = build_table(spec, scale, folder)
            lines += [f"- [{spec.place}](#{spec.name}): {text}" for text in table.findings]
    together = _all_super_classes(specs, scale, folder)
    lines += [f"- {together}"] if together else []
    return ["## In short", "", *lines, "", ""] if lines else []


def _machines(specs: Sequence[Spec], scale: Scale, folder: Path) -> list[str]:
    found = finished(folder, plan(specs, scale))
    if not found:
        return ["Nothing has been run at this scale yet: every cell below says so."]
    machines = Counter(_machine(result) for result in found)
    return [f"{count} runs on {name}." for name, count in machines.items()]


def _machine(result: Result) -> str:
    facts: dict[str, Any] = result.facts
    machine, versions = facts["machine"], facts["versions"]
    return (
        f"{machine['system']}, {machine['cores']} cores ({machine['threads']} threads), Python "
        f"{versions['python']}, torch {versions['torch']}, scikit-learn {versions['scikit-learn']}"
        + (", trained with products in bfloat16" if facts.get("precision") == "bfloat16" else "")
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
        lines_of = {data: link(folder / scale.name / f"{data}.jsonl") for data in sets}
        results = ", ".join(f"[{data}]({file})" for data, file in lines_of.items())
        command += f" Every run as a line of JSON: {results}"
        command += f"; the table in [LaTeX]({link(latex)})." if latex.exists() else "."
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
