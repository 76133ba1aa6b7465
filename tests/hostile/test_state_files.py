"""Files that the project reads back: wrong types are named, damage is noticed, nothing hangs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import tell
from tell import TELL, DeepTELL
from tell.compare.ranking import Task, compare, rank
from tell.core.checkpoint import read_checkpoint, write_checkpoint
from tell.data.idx import read_idx
from tell.estimators import DistilRecipe
from tell.exceptions import InputError, ModelFileError
from tell.persistence import read_model, write_model

ROWS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
QUICK = DistilRecipe(epochs=1, n_init=1)
Model = TELL | DeepTELL


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    TELL(3, standardize=True, random_state=0).fit(ROWS).partial_fit(ROWS).save(place / "TELL")
    DeepTELL(3, recipe=QUICK, random_state=0).fit(ROWS).partial_fit(ROWS).save(place / "DeepTELL")
    return {name: place / name for name in ("TELL", "DeepTELL")}


def changed(source: Path, target: Path, change: Callable[[dict[str, Any], Any], object]) -> Path:
    """Copy a model with a lie in it; checksums are right, as a liar's would be."""
    saved = read_model(source)
    change(saved.config, saved.tensors)
    write_model(target, saved.kind, saved.config, saved.tensors)
    return target


def put(*path: str, value: Any) -> Callable[[dict[str, Any], Any], None]:
    def change(config: dict[str, Any], tensors: Any) -> None:
        for key in path[:-1]:
            config = config[key]
        config[path[-1]] = value

    return change


LIES = [
    ("TELL", put("usual_loss", value="x"), "'usual_loss' must be a number, got 'x'"),
    ("TELL", put("options", "n_init", value=1e9), "n_init"),
    ("TELL", put("options", "n_init", value=10**9), "n_init must be at most"),
    ("TELL", put("options", "max_iter", value="many"), "max_iter"),
    ("TELL", put("options", "tol", value=None), "tol"),
    ("TELL", put("options", value=[1]), "'options' must be an object"),
    ("TELL", put("learned", "stream_", value=7), r"'learned\.stream_' must be a list"),
    ("TELL", put("learned", "history_", value=[1]), r"history_\[0\]"),
    ("TELL", put("learned", "feature_names_in_", value=[1, 2]), "must be a text"),
    ("TELL", put("learned", "predict", value=3), "absent"),
    ("TELL", put("seed", value=-1), "seed"),
    ("TELL", put("seen", value=[]), "seen"),
    ("TELL", put("watch", "drifting", value="no"), "drifting"),
    ("TELL", put("watch", value={}), "watch"),
    ("TELL", put("watch", "squares", value=-1.0), "squares"),
    ("TELL", put("watch", "rows", value=-1), "rows"),
    ("DeepTELL", put("options", "n_clusters", value=10**12), "n_clusters"),
    ("DeepTELL", put("options", "embedding_dim", value=10**9), "embedding_dim"),
    ("DeepTELL", put("options", "epochs", value="all"), "epochs"),
    ("DeepTELL", put("options", "encoder", value=5), "encoder"),
    ("DeepTELL", put("input_shape", value=[1 << 20, 1 << 20]), "values"),
    ("DeepTELL", put("input_shape", value=[10**6]), "no layer"),
    ("DeepTELL", put("input_shape", value=[-1]), "input_shape"),
    ("DeepTELL", put("recipe", "name", value="none"), "none"),
    ("DeepTELL", put("recipe", "options", value={"x": 1}), "x"),
    ("DeepTELL", put("results", "stream_", value={}), "stream_"),
    ("DeepTELL", put("results", "loss_", value="low"), "loss_"),
    ("DeepTELL", put("results", "stream_", value=[{"batch": 1 << 64}]), "batch"),
    ("DeepTELL", put("options", "random_state", value=1 << 40), "random_state"),
]


@pytest.mark.parametrize(("kind", "lie", "message"), LIES)
def test_lies_in_a_description_are_named(
    models: dict[str, Path], tmp_path: Path, kind: str, lie: Any, message: str
) -> None:
    folder = changed(models[kind], tmp_path / "model", lie)
    with pytest.raises(ModelFileError, match=message):
        tell.load(folder)


@pytest.mark.parametrize(
    "options", [{"verbose": True}, {"standardize": 1}, {"init": ROWS[:3]}, {"random_state": None}]
)
def test_whatever_is_saved_is_read(tmp_path: Path, options: dict[str, Any]) -> None:
    model = TELL(3, **options).fit(ROWS)
    model.save(tmp_path / "model")
    assert (tell.load(tmp_path / "model").predict(ROWS) == model.labels_).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("centers", torch.zeros(3, 5)),
        ("centers", torch.zeros(3, 6, dtype=torch.int64)),
        ("counts", torch.zeros(4)),
        ("sums", torch.zeros(18)),
        ("labels", torch.full((40,), 99, dtype=torch.int32)),
        ("labels", torch.zeros(40)),
        ("scale", torch.zeros(2)),
        ("pending.x.rows", torch.zeros(2, 6)),
        ("pending.0.data", torch.zeros(2)),
    ],
)
def test_tensors_of_another_shape_or_type_are_named(
    models: dict[str, Path], tmp_path: Path, name: str, value: torch.Tensor
) -> None:
    folder = changed(
        models["TELL"], tmp_path / "m", lambda c, tensors: tensors.update({name: value})
    )
    with pytest.raises(ModelFileError):
        tell.load(folder)


def test_any_changed_byte_of_a_description_is_noticed(models: dict[str, Path]) -> None:
    import shutil

    folder = models["TELL"].parent / "flipped"
    shutil.copytree(models["TELL"], folder, dirs_exist_ok=True)
    whole = (folder / "model.json").read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole))] ^= 1 << random.integers(8)
        if json_or_none(damaged) == json.loads(whole):
            continue  # a blank became another blank
        (folder / "model.json").write_bytes(damaged)
        with pytest.raises(ModelFileError):
            read_model(folder)


def json_or_none(text: bytes | bytearray) -> Any:
    try:
        return json.loads(bytes(text))
    except ValueError:
        return None


def test_notes_of_other_types_are_not_the_commands_own(
    models: dict[str, Path], tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from tell.cli.main import app

    model = tell.load(models["TELL"])
    notes = {"rows_seen": "many", "update": 3, "metrics": [1], "spread": {}, "data": 5, "own": 1}
    model.save(tmp_path / "model", metadata=notes)
    np.save(tmp_path / "rows.npy", ROWS)
    for command in (
        ["show"],
        ["update", tmp_path / "rows.npy"],
        ["predict", tmp_path / "rows.npy"],
    ):
        words = [command[0], tmp_path / "model", *command[1:]]
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == 0, result.stderr
    kept = tell.load(tmp_path / "model").metadata_
    assert (kept["own"], kept["data"]) == (1, 5)


# --- checkpoints -------------------------------------------------------------------------------


def test_a_flipped_bit_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    tensors = {
        "a": torch.arange(50.0),
        "b": torch.tensor(3),
        "c": torch.ones(2, dtype=torch.bfloat16),
    }
    write_checkpoint(file, tensors, {"epoch": 3, "loss": 0.1})
    whole = file.read_bytes()
    assert read_checkpoint(file)[1] == {"epoch": 3, "loss": 0.1}
    random = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole))] ^= 1 << random.integers(8)
        file.write_bytes(damaged)
        try:
            found, facts = read_checkpoint(file)
        except ModelFileError:
            continue
        assert facts == {"epoch": 3, "loss": 0.1}  # a blank of the header, or its checksum's name
        assert all(torch.equal(found[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize("facts", [{}, {"fingerprint": 3}, {"fingerprint": "x", "seeds": "0"}])
def test_a_plan_without_its_keys_is_named(tmp_path: Path, facts: dict[str, Any]) -> None:
    (tmp_path / "state").mkdir()
    write_checkpoint(tmp_path / "state" / "plan.safetensors", {}, facts)
    model = DeepTELL(2, recipe=QUICK, checkpoint=tmp_path / "state", random_state=0)
    with pytest.raises(ModelFileError, match=r"plan.*must be.*delete the folder"):
        model.fit(ROWS)


def test_a_checkpoint_without_its_state_is_named(tmp_path: Path) -> None:
    model = DeepTELL(2, recipe=QUICK, checkpoint=tmp_path / "state", max_time=1e-9, random_state=0)
    with pytest.warns(UserWarning, match="max_time"):
        model.fit(ROWS)
    (stage,) = (tmp_path / "state").glob("run-0-stage-0*")
    save_file({}, stage, metadata={"facts": json.dumps({"position": 1})})
    with pytest.raises(ModelFileError, match="delete it to start anew"):
        model.fit(ROWS)


# --- the record of a comparison ----------------------------------------------------------------


def test_a_damaged_record_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    task = Task("rows", ROWS, None, 2)
    (first,) = compare(task, ["tell"], n_seeds=1, folder=tmp_path)
    record = tmp_path / "runs.jsonl"
    whole = record.read_bytes()
    lies = [
        b"\xff\xfe\n",
        b"[1]\n",
        whole.replace(b'"seed": 0', b'"seed": "x"'),
        whole.replace(b'"measures": {', b'"measures": {"acc": "high", '),
        whole.replace(b'"labels_file": "', b'"labels_file": "../../'),
        whole[: len(whole) // 2],
    ]
    record.write_bytes(b"".join(lies[:5]) + whole + lies[5])
    assert compare(task, ["tell"], n_seeds=1, folder=tmp_path) == [first]
    both = compare(task, ["tell"], n_seeds=2, folder=tmp_path)
    assert compare(task, ["tell"], n_seeds=2, folder=tmp_path) == both  # not glued to the half line
    (tmp_path / "labels" / both[1].labels_file).write_bytes(b"\x93NUMPY")
    assert rank(both, tmp_path / "labels")[0].stability is None


# --- other formats -----------------------------------------------------------------------------


def test_an_idx_file_of_many_dimensions(tmp_path: Path) -> None:
    file = tmp_path / "many"
    file.write_bytes(b"\0\0\x08\x46" + b"\0\0\0\1" * 70 + b"x")
    with pytest.raises(InputError, match="70 dimensions"):
        read_idx(file)


def test_a_stream_of_batches_is_remembered_in_bounded_memory(models: dict[str, Path]) -> None:
    from tell.estimators.updating import STREAM_HISTORY

    model = tell.load(models["DeepTELL"])
    model.stream_ = [{"rows": 1, "loss": 0.1, "movement": 0.0, "batch": i} for i in range(1024)]
    for _ in range(3):
        model.partial_fit(ROWS[:2])
    assert len(model.stream_) == STREAM_HISTORY
    assert [record["batch"] for record in model.stream_[-2:]] == [1025, 1026]
