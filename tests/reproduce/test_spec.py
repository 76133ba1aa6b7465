"""The specs as data: complete, consistent with each other and with the paper's tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tell.baselines import names
from tell.data import datasets
from tell.exceptions import ParameterError
from tell.reproduce.run import plan
from tell.reproduce.score_tables import LABELS, SUMMARIES
from tell.reproduce.spec import TARGETS, load_method, load_scale, load_spec, load_targets

SCALES = [load_scale(name) for name in ("smoke", "cpu", "full")]


@pytest.mark.parametrize("name", TARGETS)
def test_every_cell_names_a_known_method_and_set(name: str) -> None:
    spec = load_spec(name)
    assert set(spec.metrics) <= set(LABELS)
    assert set(spec.summaries) <= set(SUMMARIES)
    for scale in SCALES:
        for _, column, runs in spec.cells(scale):
            assert datasets.is_name(column.data)
            assert runs
            assert runs[0].method.estimator in {*names(), "tell", "deep-tell"}
            assert runs[0].method.features in {"raw", "fcn", "cnn", "iic"}


@pytest.mark.parametrize("name", [name for name in TARGETS if load_spec(name).kind == "scores"])
def test_the_paper_prints_a_number_for_every_cell(name: str) -> None:
    spec = load_spec(name)
    assert set(spec.paper) == {row.key for row in spec.rows}
    for printed in spec.paper.values():
        assert set(printed) == {c.key for c in spec.columns} | set(spec.summaries)
        for column in spec.columns:
            assert len(printed[column.key]) == len(spec.metrics)


@pytest.mark.parametrize("name", ["table2", "table3"])
def test_printed_maxima_and_means_follow_from_the_printed_columns(name: str) -> None:
    """Proves that no number was mistyped; some of the paper's own medians are not medians."""
    spec = load_spec(name)
    for row, printed in spec.paper.items():
        values = [printed[column.key][0] for column in spec.columns]
        assert SUMMARIES["max"](values) == pytest.approx(printed["max"][0]), row
        assert SUMMARIES["mean"](values) == pytest.approx(printed["mean"][0], abs=0.011), row


def test_full_scale_is_the_papers_protocol() -> None:
    full = load_scale("full")
    method = load_method("tell-cnn", full)
    assert (full.seeds, method.options["recipe"], full.feature_epochs["cnn"]) == (5, "paper", 3000)
    assert "epochs" not in method.options  # the recipe's own 3,000


def test_tables_share_their_runs() -> None:
    smoke = load_scale("smoke")
    alone = [len(plan([load_spec(name)], smoke)) for name in ("table1", "table5", "s1")]
    together = plan(load_targets(["table1", "table5", "s1"], smoke), smoke)
    assert len(together) < sum(alone)
    assert len({run.place for run in together}) == len(together)


def test_runs_can_be_picked_and_come_seed_by_seed() -> None:
    cpu = load_scale("cpu")
    runs = plan(load_targets(["table5"], cpu), cpu)
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    picked = plan(load_targets(["table5"], cpu), cpu, ["tell-cnn", "two-stage-fcn/seed-3"])
    assert [run.place.removeprefix("cpu/mnist/") for run in picked] == [
        *(f"tell-cnn/seed-{seed}" for seed in range(3)),
        "two-stage-fcn/seed-3",
        "tell-cnn/seed-3",
        "tell-cnn/seed-4",
    ]


def test_a_row_may_have_more_seeds_than_its_table() -> None:
    cpu, full = load_scale("cpu"), load_scale("full")
    table1 = load_spec("table1")
    assert {run.seed for run in plan([table1], cpu, ["/dec/", "/kmeans/"])} == {0}
    assert {run.seed for run in plan([table1], cpu, ["mnist/vade/"])} == {0, 1, 2, 3, 4}
    assert {run.seed for run in plan([table1], cpu, ["cifar10/vade/"])} == {0}
    assert {run.seed for run in plan([table1], cpu, ["/tell-cnn/"])} == set(range(5))
    assert {run.seed for run in plan([table1], full, ["/vade/"])} == set(range(5))


def test_fingerprint_changes_with_settings_only() -> None:
    run = plan([load_spec("s1")], load_scale("smoke"))[0]
    other = replace(run, method=replace(run.method, options={**run.method.options, "epochs": 9}))
    assert run.fingerprint != other.fingerprint
    said = replace(run.scale, about="other words", seeds=7, feature_epochs={"fcn": 9, "cnn": 9})
    assert replace(run, scale=said).fingerprint == run.fingerprint
    on_features = plan([load_spec("table5")], load_scale("smoke"), ["kmeans-cnn"])[0]
    assert replace(on_features, scale=said).fingerprint != on_features.fingerprint


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ParameterError, match="target must be one of table1"):
        load_targets(["table9"], SCALES[0])
    with pytest.raises(ParameterError, match="scale must be one of smoke"):
        load_scale("huge")
