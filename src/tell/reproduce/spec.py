"""The paper's tables and figures as data: what `specs/*.toml` say, read and checked.

specs/table1.toml        rows × columns of one table or figure, and which method each cell runs
specs/table1.paper.toml  the numbers that the paper prints in it
specs/methods.toml       every method by name: estimator, features, options
specs/scales.toml        how much is run: smoke, cpu, full
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from tell.exceptions import ParameterError

#: In the order of the paper.
TARGETS = (
    *(f"table{number}" for number in range(1, 7)),
    "s1",
    "s2",
    *(f"fig{number}" for number in range(5, 9)),
    "theory",
)

Numbers = Mapping[str, Mapping[str, tuple[float, ...]]]  # row -> column -> printed values


@dataclass(frozen=True)
class Scale:
    """How much of the paper is run.

    Attributes
    ----------
    seeds : int
        Runs per method, where the table does not say otherwise.
    feature_epochs : dict
        Of the network that features come from, by its name.
    iic_width : int
        Channels of the first layer of IIC's network.
    online_rows : int
        Rows that are known before the others arrive (the † rows of table 4).
    descent_steps : int
        Of the recorded runs of the layer alone.
    data, rows : str, int
        Instead of every set: this one, and so many rows of it.
    columns : int
        Of wide tables only so many.
    """

    name: str
    about: str
    seeds: int
    feature_epochs: dict[str, int]
    iic_width: int
    online_rows: int
    descent_steps: int
    data: str | None = None
    rows: int | None = None
    columns: int | None = None


@dataclass(frozen=True)
class Method:
    """What runs in a cell, at one scale: see the head of `specs/methods.toml`."""

    name: str
    estimator: str
    features: str
    options: dict[str, Any] = field(default_factory=dict)
    protocol: str = "batch"
    snapshots: bool = False


@dataclass(frozen=True)
class Run:
    """One method on one data set with one seed: the unit that is run, kept and never repeated."""

    data: str
    method: Method
    seed: int
    scale: Scale

    @property
    def place(self) -> str:
        """Where its files lie below the results' folder, without an ending."""
        return f"{self.scale.name}/{self.data}/{self.method.name}/seed-{self.seed}"

    @property
    def fingerprint(self) -> str:
        """Changes with every setting of the specs that the result depends on, and with no other.

        Not with the code: whoever changes what a method does removes its results.
        """
        settings = [self.data, asdict(self.method), self.seed, self.scale.data, self.scale.rows]
        if self.method.features in self.scale.feature_epochs:
            settings.append(self.scale.feature_epochs[self.method.features])
        if self.method.features == "iic":
            settings.append(self.scale.iic_width)
        if self.method.protocol == "online":
            settings.append(self.scale.online_rows)
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Column:
    """One column of a table: a label and the data of its cells."""

    key: str
    label: str
    data: str


@dataclass(frozen=True)
class Row:
    """One row of a table: a label and the method of each column, by the column's key.

    `seeds` says, by scale, how many runs its cells have where they differ from the table's: one
    number for all columns, or one for each column that it names.
    """

    key: str
    label: str
    methods: dict[str, str]
    seeds: dict[str, int | dict[str, int]]


@dataclass(frozen=True)
class Spec:
    """One table or figure.

    Attributes
    ----------
    kind : {"scores", "runs", "centers", "map", "curves", "theory"}
    metrics : measures of each cell
    summaries : of the first metric over the columns
    seeds : runs per cell by scale, where it differs from the scale's own
    claims : name -> (row, ">" or ">=", row), checked in medians of the first metric
    churn : whether to say how many labels change when the centres move
    remark : what a reader of its numbers must know
    paper : what the paper prints
    drawing, descent : settings of figures and of the theory's runs
    """

    name: str
    title: str
    place: str
    kind: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    metrics: tuple[str, ...]
    summaries: tuple[str, ...]
    seeds: dict[str, int]
    claims: dict[str, tuple[str, str, str]]
    churn: bool
    remark: str
    paper: Numbers
    drawing: dict[str, Any]
    descent: dict[str, Any]

    def cell(self, row: Row, column: Column, scale: Scale) -> list[Run]:
        """The runs behind one cell, one per seed."""
        method = load_method(row.methods[column.key], scale)
        usual = self.seeds.get(scale.name, scale.seeds)
        own = row.seeds.get(scale.name, usual)
        count = own.get(column.key, usual) if isinstance(own, dict) else own
        return [Run(column.data, method, seed, scale) for seed in range(count)]

    def cells(self, scale: Scale) -> Iterator[tuple[Row, Column, list[Run]]]:
        """All cells in reading order."""
        for row in self.rows:
            for column in self.columns:
                yield row, column, self.cell(row, column, scale)


def load_spec(name: str) -> Spec:
    """Read one table or figure.

    >>> [row.label for row in load_spec("table5").rows]
    ['k-means', 'TELL-TwoStage', 'TELL']
    """
    _check(name, TARGETS, "target")
    content = _read(name)
    columns = tuple(Column(key, **value) for key, value in content["columns"].items())
    return Spec(
        name=name,
        title=content["title"],
        place=content["place"],
        kind=content["kind"],
        columns=columns,
        rows=tuple(_row(key, value, columns) for key, value in content.get("rows", {}).items()),
        metrics=tuple(content.get("metrics", ())),
        summaries=tuple(content.get("summaries", ())),
        seeds=content.get("seeds", {}),
        claims={name: tuple(claim) for name, claim in content.get("claims", {}).items()},
        churn=content.get("churn", False),
        remark=content.get("remark", ""),
        paper=_paper(name),
        drawing=content.get("drawing", {}),
        descent=content.get("descent", {}),
    )


def load_scale(name: str) -> Scale:
    """Read one scale.

    >>> load_scale("full").feature_epochs["cnn"]
    3000
    """
    scales = _read("scales")
    _check(name, tuple(scales), "scale")
    return Scale(name, **scales[name])


def load_method(name: str, scale: Scale) -> Method:
    """Read one method as it is at a scale.

    >>> load_method("tell-cnn", load_scale("full")).options["recipe"]
    'paper'
    """
    methods, scales = _read("methods"), tuple(_read("scales"))
    _check(name, tuple(methods), "method")
    content = {key: value for key, value in methods[name].items() if key not in scales}
    change = methods[name].get(scale.name, {})
    options = {**content.get("options", {}), **change.get("options", {})}
    return Method(name, **{**content, **change, "options": options})


def load_targets(names: list[str], scale: Scale) -> list[Spec]:
    """Read several, as wide as the scale allows; "all" stands for everything.

    >>> len(load_targets(["all"], load_scale("cpu"))) == len(TARGETS)
    True
    """
    for name in names:
        _check(name, (*TARGETS, "all"), "target")
    wanted = list(TARGETS) if "all" in names else list(dict.fromkeys(names))
    specs = (load_spec(name) for name in wanted)
    return [replace(spec, columns=spec.columns[: scale.columns]) for spec in specs]


def _row(key: str, value: dict[str, Any], columns: tuple[Column, ...]) -> Row:
    methods = value.get("methods") or {column.key: value["method"] for column in columns}
    return Row(key, value["label"], methods, value.get("seeds", {}))


def _paper(name: str) -> Numbers:
    try:
        return {
            row: {column: tuple(values) for column, values in columns.items()}
            for row, columns in _read(f"{name}.paper").items()
        }
    except FileNotFoundError:  # figures print no numbers
        return {}


@cache
def _read(name: str) -> dict[str, Any]:
    text = files("tell.reproduce").joinpath("specs", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def _check(name: str, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        raise ParameterError(f"{what} must be one of {', '.join(known)}; got {name!r}")
