"""Tables from results: differences, choices, claims, and what is said where numbers are missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tell.reproduce.page import write_page
from tell.reproduce.results import (
    Result,
    environment,
    finished,
    read_result,
    reported,
    results_file,
    write_result,
)
from tell.reproduce.score_tables import build_table, to_latex, to_markdown
from tell.reproduce.spec import Scale, Spec, load_scale, load_spec

CPU, FULL = load_scale("cpu"), load_scale("full")


def result(acc: float, loss: float | None = None, **more: object) -> Result:
    scores = dict.fromkeys(("acc", "nmi", "ari", "ami", "homogeneity", "completeness"), acc)
    kept = {"scores": {**scores, "v_measure": acc}, "loss": loss, "table_loss": loss}
    kept |= {"facts": environment()}
    return Result("done", **{**kept, **more})  # type: ignore[arg-type]


def fill(folder: Path, spec: Spec, row: str, results: list[Result], scale: Scale = CPU) -> None:
    for line, _, runs in spec.cells(scale):
        if line.key == row:
            for run, found in zip(runs, results, strict=False):
                write_result(folder, run, found)


def test_a_number_stands_beside_the_papers(tmp_path: Path) -> None:
    spec = load_spec("table1")
    fill(tmp_path, spec, "kmeans", [result(0.80), result(0.70), result(0.75)], FULL)
    text = to_markdown(build_table(spec, FULL, tmp_path))
    assert "**75.00**<br>paper 78.32, -3.32" in text  # the median of three seeds
    assert "| GMM | not run<br>paper 80.83 |" in text


def test_latex_has_a_row_per_method_and_escapes(tmp_path: Path) -> None:
    spec = load_spec("table4")
    fill(tmp_path, spec, "kmeans", [result(0.5)])
    text = to_latex(build_table(spec, CPU, tmp_path))
    assert text.count("\\\\") == len(spec.rows) + 1
    assert "50.00$_{-5.34}$ (55.34)" in text
    assert "TELL-TwoStage$^\\dagger$ & --- (54.59)" in text


def test_the_run_with_the_smallest_loss_is_reported() -> None:
    runs = [result(0.9, loss=0.3), result(0.6, loss=0.1), result(0.95, loss=0.2)]
    assert reported(runs, "acc") == pytest.approx(60)
    assert reported([result(0.9), result(0.6), result(0.95)], "acc") == pytest.approx(90)


def test_summaries_wait_for_all_columns(tmp_path: Path) -> None:
    spec = load_spec("table2")
    for _, column, runs in spec.cells(CPU):
        if column.key != "cifar100-s10":
            write_result(tmp_path, runs[0], result(0.4))
    line = build_table(spec, CPU, tmp_path).lines[0][1]
    assert [entry.ours for entry in line[-4:]] == [None] * 4
    fill(tmp_path, spec, "kmeans", [result(0.5)])
    line = build_table(spec, CPU, tmp_path).lines[0][1]
    assert [entry.ours for entry in line[-3:]] == pytest.approx([50, 50, 50])


def test_five_runs_mark_the_choice_and_its_correlation(tmp_path: Path) -> None:
    spec = load_spec("s2")
    pairs = [(0.8, 0.05), (0.95, 0.01), (0.9, 0.02), (0.85, 0.03), (0.82, 0.04)]
    fill(tmp_path, spec, "tell", [result(acc, loss) for acc, loss in pairs])
    table = build_table(spec, CPU, tmp_path)
    assert [label for label, _ in table.lines] == ["1", "2 (chosen)", "3", "4", "5"]
    assert table.findings[0].startswith("The run chosen by L_clu has ACC 95.00; all 5 runs lie")
    assert "over our 5 runs: -1.00 (p = 0.00). They back the choice" in table.findings[1]


def test_medians_that_differ_by_little_are_shown_with_digits_that_tell(tmp_path: Path) -> None:
    spec = load_spec("table4")
    fill(tmp_path, spec, "kmeans", [result(0.97520)])
    fill(tmp_path, spec, "two-stage", [result(0.97523)])
    findings = build_table(spec, CPU, tmp_path).findings
    assert any("holds; median ACC 97.5230 against 97.5200" in finding for finding in findings)


def test_a_single_run_is_no_choice(tmp_path: Path) -> None:
    spec = load_spec("s2")
    fill(tmp_path, spec, "tell", [result(0.8, 0.05)])
    assert build_table(spec, CPU, tmp_path).findings == ()


def test_runs_that_are_missing_are_counted(tmp_path: Path) -> None:
    spec = load_spec("table1")
    fill(tmp_path, spec, "kmeans", [result(0.5)])
    fill(tmp_path, spec, "tell", [result(0.5, 0.1)] * 3)
    write_result(tmp_path, spec.cell(spec.rows[-1], spec.columns[0], CPU)[3], result(0.5, 0.1))
    notes = build_table(spec, CPU, tmp_path).notes
    assert "Runs per cell: 1 (k-means); 3 to 4 of 5 (TELL)." in notes
    assert notes[0].startswith("At the scale cpu every row but TELL's is one run")


def test_a_row_with_more_seeds_in_one_column_is_whole(tmp_path: Path) -> None:
    spec = load_spec("table1")
    fill(tmp_path, spec, "vade", [result(0.5, 90.0, table_loss=None)])
    assert "Runs per cell: 1 of 1 to 5 (VaDE)." in build_table(spec, CPU, tmp_path).notes
    fill(tmp_path, spec, "vade", [result(0.5, 90.0, table_loss=None)] * 5)
    assert "Runs per cell: 1 to 5 (VaDE)." in build_table(spec, CPU, tmp_path).notes


def test_what_a_loss_has_chosen_among_is_told(tmp_path: Path) -> None:
    spec = load_spec("table5")
    fill(tmp_path, spec, "tell", [result(0.7, 0.1), result(0.9, 0.2), result(0.6, 0.3)])
    fill(tmp_path, spec, "kmeans", [result(0.5), result(0.6)])
    notes = build_table(spec, CPU, tmp_path).notes
    assert (
        "ACC of all runs where the loss chose one: "
        "TELL (FCN) 60.00 to 90.00, TELL (CNN) 60.00 to 90.00." in notes
    )


def test_the_others_standing_is_told(tmp_path: Path) -> None:
    spec = load_spec("table1")
    fill(tmp_path, spec, "tell", [result(0.9, 0.1)])
    fill(tmp_path, spec, "kmeans", [result(0.95)])  # above the paper's 78.32 and 19.81
    fill(tmp_path, spec, "gmm", [result(0.5)])  # between the paper's 80.83 and 19.31
    findings = build_table(spec, CPU, tmp_path).findings
    assert findings[1] == (
        "TELL has the largest ACC in 0 of 2 columns, in the paper in 2. Of the other methods' 4 "
        "ACCs 3 are above the paper's."
    )


def test_a_seed_that_always_wins_is_told(tmp_path: Path) -> None:
    spec = load_spec("table2")
    fill(tmp_path, spec, "tell", [result(0.9, 0.3), result(0.8, 0.1), result(0.7, 0.2)])
    notes = build_table(spec, CPU, tmp_path).notes
    assert "TELL's smallest loss of 10 columns: seed 1 in 10." in notes


def test_an_empty_cluster_of_the_chosen_run_is_told(tmp_path: Path) -> None:
    spec = load_spec("table1")
    empty, full = ({"smallest": size} for size in (0, 5))
    fill(
        tmp_path,
        spec,
        "tell",
        [result(0.9, 0.3, history=[empty]), result(0.8, 0.1, history=[full])],
    )
    assert not any("empty" in note for note in build_table(spec, CPU, tmp_path).notes)
    fill(
        tmp_path,
        spec,
        "tell",
        [result(0.9, 0.3, history=[full]), result(0.8, 0.1, history=[empty])],
    )
    notes = build_table(spec, CPU, tmp_path).notes
    assert (
        "TELL (MNIST), TELL (CIFAR-10): the chosen run left a cluster empty in its last epoch."
        in notes
    )


def test_a_correlation_says_what_it_backs(tmp_path: Path) -> None:
    spec = load_spec("s2")
    fill(
        tmp_path,
        spec,
        "tell",
        [result(acc, loss) for acc, loss in [(0.8, 0.3), (0.9, 0.4), (0.7, 0.1)]],
    )
    (_, said) = build_table(spec, CPU, tmp_path).findings
    assert said.endswith("+1.00 (p = 0.00). They do not back the choice by the smallest L_clu.")


def test_claims_are_judged_by_medians_and_by_chance(tmp_path: Path) -> None:
    spec = load_spec("table6")
    fill(tmp_path, spec, "adam", [result(0.9), result(0.2), result(0.8)])
    fill(tmp_path, spec, "adam-free", [result(0.7), result(0.7), result(0.85)])
    fill(tmp_path, spec, "adadelta", [result(0.5)])
    fill(tmp_path, spec, "adadelta-free", [result(0.6)])
    said = " ".join(build_table(spec, CPU, tmp_path).findings)
    assert "helps adam” (MNIST): is not decided; median ACC 80.00 against 70.00 over 3" in said
    assert "3 and 3 runs (Mann-Whitney p = 0.500)." in said
    assert "helps adadelta” (MNIST): does not hold; median ACC 50.00 against 60.00" in said
    fill(tmp_path, spec, "adam", [result(0.9), result(0.91), result(0.92)])  # all 3 above all 3
    said = " ".join(build_table(spec, CPU, tmp_path).findings)
    assert "helps adam” (MNIST): holds; median ACC 91.00 against 70.00 over 3" in said
    assert "(Mann-Whitney p = 0.0" in said


def test_a_tie_is_no_worse_but_does_not_beat(tmp_path: Path) -> None:
    spec = load_spec("table5")
    for row in ("kmeans", "two-stage", "tell"):
        fill(tmp_path, spec, row, [result(0.5)])
    findings = " ".join(build_table(spec, CPU, tmp_path).findings)
    assert "beats two stage” (FCN): does not hold" in findings
    assert "no worse than k means” (FCN): holds" in findings


def test_labels_that_change_with_the_centres_are_told(tmp_path: Path) -> None:
    def run(changed: float) -> Result:
        moved = {"changed": 0.5, "movement": 0.1}, {"changed": changed, "movement": 0.1}
        return result(0.5, history=[*moved, {"changed": 0.9, "movement": 0.0}])

    spec = load_spec("table6")
    fill(tmp_path, spec, "adadelta", [run(0.2), run(0.1), run(0.4)])
    assert build_table(spec, CPU, tmp_path).notes[0].endswith("over the runs): AdaDelta 20 %.")


def test_reasons_and_notes_are_said_once(tmp_path: Path) -> None:
    spec = load_spec("table1")
    fill(tmp_path, spec, "lrr", [Result("failed", reason="ran out of memory")])
    fill(tmp_path, spec, "zac", [result(0.5, note="clustered a sample")])
    notes = build_table(spec, CPU, tmp_path).notes
    assert "LRR (MNIST), LRR (CIFAR-10): ran out of memory." in notes
    assert "ZAC (MNIST), ZAC (CIFAR-10): clustered a sample." in notes


def test_results_of_other_settings_or_broken_files_do_not_count(tmp_path: Path) -> None:
    run = load_spec("s1").cell(load_spec("s1").rows[0], load_spec("s1").columns[0], CPU)[0]
    write_result(tmp_path, run, result(0.5))
    assert len(finished(tmp_path, [run])) == 1
    file = results_file(tmp_path, run)
    file.write_text(file.read_text().replace(run.fingerprint, "0" * 16))
    assert read_result(tmp_path, run) is None
    file.write_text('{"status": "do')
    assert read_result(tmp_path, run) is None
    write_result(tmp_path, run, result(0.5))
    whole = json.loads(file.read_text())
    for damage in ({"scores": {}}, {"facts": {}}, {"scores": None}):
        file.write_text(json.dumps(whole | damage))
        assert read_result(tmp_path, run) is None
    file.write_text(json.dumps({k: v for k, v in whole.items() if k != "history"}))
    assert read_result(tmp_path, run) is None


def test_both_halves_of_cifar100_are_summed_up(tmp_path: Path) -> None:
    halves = [load_spec("table2"), load_spec("table3")]
    page = tmp_path / "page.md"
    for spec in halves:
        write_page(halves, CPU, tmp_path, page)
        assert "All 20 super-classes" not in page.read_text()
        fill(tmp_path, spec, "tell", [result(0.355, loss=0.1)])
    write_page(halves, CPU, tmp_path, page)
    text = page.read_text()
    assert "TELL's mean ACC is 35.50 (paper 34.60); at or above the paper in 11 of 20." in text
    assert "TELL is at or above the paper in" in text
