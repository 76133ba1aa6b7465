"""`tell predict`: labels for rows, by name of column, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_iris

from tell import load
from tell.cli.writers import label_writer
from tell.files import whole_file

from .conftest import PROGRAM, Run, environment, iris_csv

Tell = Callable[..., Run]


@pytest.fixture
def truth(flower_model: Path) -> np.ndarray:
    names = load(flower_model).feature_names_in_
    assert names.tolist() == ["sepal length", "sepal width", "petal length", "petal width"]
    model = load(flower_model)
    del model.feature_names_in_
    return model.predict(load_iris().data)


def test_labels_in_every_file_type(
    tell: Tell, tmp_path: Path, flower_model: Path, truth: np.ndarray
) -> None:
    iris_csv(tmp_path / "iris.csv")
    read = {
        "l.csv": lambda path: pyarrow.csv.read_csv(path)["cluster"].to_numpy(),
        "l.parquet": lambda path: pq.read_table(path)["cluster"].to_numpy(),
        "l.npy": np.load,
        "l.npz": lambda path: np.load(path)["cluster"],
    }
    for name, reader in read.items():
        assert "150 rows" in tell("predict", flower_model, "iris.csv", "--out", name).err
        assert np.array_equal(reader(tmp_path / name), truth)
    labels = [int(line) for line in tell("predict", flower_model, "iris.csv").out.split()[1:]]
    assert labels == truth.tolist()
    assert not list(tmp_path.glob(".*"))


def test_columns_are_matched_by_name_in_any_order(
    tell: Tell, tmp_path: Path, flower_model: Path, truth: np.ndarray
) -> None:
    iris_csv(tmp_path / "mixed.csv", order=[3, 4, 1, 0, 2])
    result = json.loads(tell("predict", flower_model, "mixed.csv", "--json").worked())
    assert result["labels"] == truth.tolist()
    assert result["sizes"] == np.bincount(truth).tolist()


def test_probabilities_distances_and_scores(
    tell: Tell, tmp_path: Path, flower_model: Path, truth: np.ndarray
) -> None:
    iris_csv(tmp_path / "iris.csv")
    options = ["--proba", "--distances", "--label", "species", "--out", "l.parquet", "--json"]
    result = json.loads(tell("predict", flower_model, "iris.csv", *options).worked())
    assert result["metrics"]["acc"] > 0.8
    labels = pq.read_table(tmp_path / "l.parquet").to_pandas()
    assert labels.columns.tolist() == [
        "cluster",
        *(f"probability_{cluster}" for cluster in range(3)),
        *(f"distance_{cluster}" for cluster in range(3)),
    ]
    np.testing.assert_allclose(labels.filter(like="probability").sum(axis=1), 1, rtol=1e-5)
    assert np.array_equal(labels.filter(like="probability").to_numpy().argmax(axis=1), truth)
    assert np.array_equal(labels.filter(like="distance").to_numpy().argmin(axis=1), truth)


def test_an_array_is_taken_by_position(
    tell: Tell, tmp_path: Path, flower_model: Path, truth: np.ndarray
) -> None:
    np.save(tmp_path / "x.npy", load_iris().data)
    assert tell("predict", flower_model, "x.npy").out.split()[1:] == [str(t) for t in truth]
    np.save(tmp_path / "narrow.npy", load_iris().data[:, :3])
    assert "4 columns" in tell("predict", flower_model, "narrow.npy").failed()


def test_a_model_saved_from_python_works_too(tell: Tell, tmp_path: Path) -> None:
    from tell import TELL

    TELL(3, random_state=0).fit(load_iris().data).save(tmp_path / "plain")
    iris_csv(tmp_path / "iris.csv", order=[0, 1, 2, 3])
    assert len(tell("predict", "plain", "iris.csv").worked().split()) == 151
    assert "TELL, 3 clusters" in tell("show", "plain").worked()


def test_a_failure_midway_leaves_the_earlier_file(tmp_path: Path) -> None:
    target = tmp_path / "labels.csv"
    target.write_text("earlier")

    def fail() -> None:
        with label_writer(target, silent=False) as writer:
            writer.write({"cluster": np.arange(3)})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [target]


def has_begun(pid: int, folder: Path) -> bool:
    """Whether the process has a file open in the folder, be it without a name."""
    opened = []
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(FileNotFoundError):  # closed since
            opened.append(link.readlink())
    return any(path.is_relative_to(folder) for path in opened)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_rows_arrive_nothing_is_left(
    tmp_path: Path, flower_model: Path, number: signal.Signals
) -> None:
    command = [PROGRAM, "predict", str(flower_model), "-", "--out", "labels.csv"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(),
    )
    assert process.stdin is not None
    process.stdin.write(b"petal width,petal length,sepal width,sepal length\n1,2,3,4\n")
    process.stdin.flush()
    end = time.monotonic() + 100
    while not has_begun(process.pid, tmp_path):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.decode() == "tell: stopped; nothing half-written was left behind\n"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_new_files_get_the_rights_that_the_user_usually_gives(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "x") as file:
            file.write(b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_ids_and_file_names_are_kept_beside_labels(tell: Tell, tmp_path: Path) -> None:
    people = [
        "id,age,city,name",
        *(f"a{i},{20 + i % 30},{'Ulm' if i % 2 else 'Rom'},n {i}" for i in range(60)),
    ]
    people[5] = "a4,,Ulm,n 4"
    (tmp_path / "people.csv").write_text("\n".join(people) + "\n")
    tell("fit", "people.csv", "-k", 2).worked()
    done = tell("predict", "model", "people.csv", "--keep", "id,name", "--out", "labels.csv")
    assert "1 of them with gaps that were filled" in done.err
    labels = pd.read_csv(tmp_path / "labels.csv")
    assert labels.columns.tolist() == ["id", "name", "cluster"]
    table = pd.read_csv(tmp_path / "people.csv")
    assert labels["id"].tolist() == table["id"].tolist()
    assert np.array_equal(labels["cluster"], load(tmp_path / "model").predict(table))
    assert (
        "'nowhere' to keep" in tell("predict", "model", "people.csv", "--keep", "nowhere").failed()
    )


def test_photos_of_different_sizes_and_their_names(tell: Tell, tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "photos").mkdir()
    for i in range(6):
        pixels = np.full((8 + i, 12, 3), 40 * i, np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"p{i}.png")
    assert "image_size" in tell("fit", "photos", "-k", 2).failed()
    tell("fit", "photos", "-k", 2, "--image-size", 8, "--geometry", "euclidean").worked()
    lines = tell("predict", "model", "photos").worked().splitlines()
    assert lines[0] == '"file","cluster"'
    assert [line.split(",")[0] for line in lines[1:]] == [f'"p{i}.png"' for i in range(6)]


COLD = """
import sys
sys.argv = ["tell", *sys.argv[1:]]
from tell.cli.main import main
main()
heavy = {"torch", "sklearn", "scipy", "pandas"} & set(sys.modules)
print(*sorted(heavy), file=sys.stderr)
"""


def cold(place: Path, *args: object) -> tuple[str, set[str]]:
    """What a command writes in a process of its own, and what it had to load for that."""
    words = [sys.executable, "-c", COLD, "predict", *map(str, args), "-q"]
    done = subprocess.run(
        words, cwd=place, env=environment(), capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout, set(done.stderr.splitlines()[-1].split())


def test_labels_alone_wait_for_no_heavy_package(tell: Tell, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((20_000, 5)) + 4 * random.integers(0, 3, (20_000, 1))
    np.save(tmp_path / "wide.npy", X.astype(np.float32))
    table = pd.DataFrame(X[:3000], columns=list("abcde"))
    table["id"] = [f"row {i}" for i in range(3000)]
    table["kind"] = random.choice(["one", "two"], 3000)
    table.loc[7, "a"] = None
    table.to_csv(tmp_path / "table.csv", index=False)
    table.to_parquet(tmp_path / "table.parquet", index=False)
    for data, options in (
        ("wide.npy", ["--geometry", "sphere"]),
        ("wide.npy", ["--geometry", "euclidean", "--standardize"]),
        ("table.csv", []),
        ("table.csv", ["--gaps", "drop"]),
        ("table.parquet", ["--geometry", "euclidean"]),
    ):
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        tell("fit", data, "-k", "4", *options, "--out", "model").worked()
        tell("name", "model", 1, "Second").worked()
        written, loaded = cold(tmp_path, "model", data)
        # Texts are left to pandas' way through Arrow, which is the faster one for many rows.
        assert loaded <= ({"pandas"} if "table" in data else set()), (data, options)
        # With distances the whole model answers, label by label the same.
        whole = tell("predict", "model", data, "--distances").worked().splitlines()
        labels = [line.rsplit(",", 4)[0] for line in whole]
        assert labels == written.splitlines()


def test_a_light_start_keeps_columns_and_scores(tell: Tell, tmp_path: Path) -> None:
    iris_csv(tmp_path / "iris.csv")
    tell("fit", "iris.csv", "-k", "3", "--label", "species", "--out", "model").worked()
    words = ("model", "iris.csv", "--keep", "species,petal width", "--out")
    plain = tell("predict", *words, "plain.csv", "--label", "species").err
    tell("predict", *words, "whole.csv", "--proba").worked()
    read = [pd.read_csv(tmp_path / name) for name in ("plain.csv", "whole.csv")]
    pd.testing.assert_frame_equal(read[0], read[1][read[0].columns])
    assert "acc" in plain.lower()
