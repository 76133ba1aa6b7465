"""Model folders: whole or refused, whatever happened to them; never executed."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tell
from tell import persistence
from tell.exceptions import ModelFileError
from tell.persistence import check_place, read_model, write_model

CONFIG = {"options": {"n_clusters": 2}, "text": "größer", "list": [1, 2.5, None]}
TENSORS = {"a": torch.arange(12.0).view(3, 4), "b": torch.tensor([1, 2]), "c": torch.zeros(0, 5)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_model(tmp_path / "model", "TELL", CONFIG, TENSORS)
    return tmp_path / "model"


def tensors_file(folder: Path) -> Path:
    (found,) = folder.glob("*.safetensors")
    return found


def edited(folder: Path, **changes: Any) -> None:
    description = json.loads((folder / "model.json").read_text())
    description.update(changes)
    description["checksum"] = persistence._checksum(description)
    (folder / "model.json").write_text(json.dumps(description))


def test_round_trip(folder: Path) -> None:
    saved = read_model(folder)
    assert saved.kind == "TELL"
    assert saved.config == CONFIG
    assert set(saved.tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert torch.equal(saved.tensors[name], tensor)
        assert saved.tensors[name].dtype == tensor.dtype
    assert len(list(folder.iterdir())) == 2


def test_views_of_one_tensor_may_be_saved(tmp_path: Path) -> None:
    whole = torch.arange(6.0).view(2, 3)
    write_model(tmp_path / "model", "TELL", {}, {"whole": whole, "turned": whole.T})
    assert torch.equal(read_model(tmp_path / "model").tensors["turned"], whole.T)


def test_saving_again_replaces_the_old_model(folder: Path) -> None:
    write_model(folder, "DeepTELL", {"new": True}, {"z": torch.ones(2)})
    saved = read_model(folder)
    assert (saved.kind, saved.config, list(saved.tensors)) == ("DeepTELL", {"new": True}, ["z"])
    assert len(list(folder.iterdir())) == 2
    write_model(folder, "DeepTELL", {"new": True}, {"z": torch.ones(2)})  # the very same tensors
    assert torch.equal(read_model(folder).tensors["z"], torch.ones(2))


# --- damage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["model.json", "tensors"])
@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.7, 0.999])
def test_truncated_files_are_refused(folder: Path, which: str, part: float) -> None:
    path = folder / "model.json" if which == "model.json" else tensors_file(folder)
    payload = path.read_bytes()
    path.write_bytes(payload[: int(part * len(payload))])
    with pytest.raises(ModelFileError, match="damaged"):
        read_model(folder)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_flipped_bit_of_the_tensors_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("flipped") / "model"
    write_model(folder, "TELL", CONFIG, TENSORS)
    path = tensors_file(folder)
    payload = bytearray(path.read_bytes())
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(payload)
    with pytest.raises(ModelFileError, match="damaged"):
        read_model(folder)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_description_loads_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("changed") / "model"
    write_model(folder, "TELL", CONFIG, TENSORS)
    payload = bytearray((folder / "model.json").read_bytes())
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    (folder / "model.json").write_bytes(payload)
    with suppress(ModelFileError):  # and no other error
        read_model(folder)


@pytest.mark.parametrize("text", ["{}", "[]", "1", '{"format": "other"}', '{"name": "x"}', "null"])
def test_foreign_json_is_refused(folder: Path, text: str) -> None:
    (folder / "model.json").write_text(text)
    with pytest.raises(ModelFileError, match="not written by tell"):
        read_model(folder)


def test_text_that_is_no_json(folder: Path) -> None:
    for text in ("", "hello", "[" * 100_000):
        (folder / "model.json").write_text(text)
        with pytest.raises(ModelFileError, match="not JSON"):
            read_model(folder)


@pytest.mark.parametrize("version", [3, 99, "1", None, 1.5])
def test_newer_versions_are_refused(folder: Path, version: object) -> None:
    edited(folder, version=version)
    with pytest.raises(ModelFileError, match="upgrade"):
        read_model(folder)


@pytest.mark.parametrize("key", ["kind", "sha256", "config"])
def test_a_missing_part_is_named(folder: Path, key: str) -> None:
    edited(folder, **{key: 7})
    with pytest.raises(ModelFileError, match=key):
        read_model(folder)


def test_a_checksum_cannot_lead_out_of_the_folder(folder: Path) -> None:
    secret = folder.parent / "tensors-secret.safetensors"
    secret.write_bytes(tensors_file(folder).read_bytes())
    for checksum in ("../tensors-secret", "/etc/passwd", "\0", ""):
        edited(folder, sha256=checksum)
        with pytest.raises(ModelFileError):
            read_model(folder)


def test_tensors_that_are_none_with_the_right_checksum(folder: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (folder.parent / "executed",))

    for payload in (pickle.dumps(Evil()), b"", b"\xff" * 64):
        checksum = hashlib.sha256(payload).hexdigest()
        (folder / persistence._tensors_name(checksum)).write_bytes(payload)
        edited(folder, sha256=checksum)
        with pytest.raises(ModelFileError, match="cannot be read"):
            read_model(folder)
    assert not (folder.parent / "executed").exists()


def test_missing_places(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="not a model folder"):
        tell.load(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="not a model folder"):
        tell.load(tmp_path)
    with pytest.raises(ModelFileError):
        tell.load(folder / "model.json")
    tensors_file(folder).unlink()
    with pytest.raises(ModelFileError, match="cannot be read"):
        tell.load(folder)


def test_a_kind_of_another_program(folder: Path) -> None:
    edited(folder, kind="os.system")
    with pytest.raises(ModelFileError, match=r"TELL.*os\.system"):
        tell.load(folder)


def test_source_has_no_pickle() -> None:
    package = Path(tell.__file__).parent
    for path in (package / "persistence.py", *package.joinpath("estimators").rglob("*saving.py")):
        assert "import pickle" not in path.read_text()
        assert "torch.load" not in path.read_text()


# --- a reader beside a writer ------------------------------------------------------------------


def replaced_before_reading(folder: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a writer replace the model whenever a reader opens the tensors, so many times."""
    real, saves = Path.read_bytes, [0]

    def read_bytes(path: Path) -> bytes:
        if path.suffix == ".safetensors" and saves[0] < times:
            saves[0] += 1
            i = saves[0]
            write_model(folder, "TELL", {"i": i}, {"i": torch.tensor([i])})
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    return saves


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_model_replaced_while_it_is_read(
    folder: Path, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced_before_reading(folder, times, monkeypatch)
    saved = read_model(folder)
    assert saved.config["i"] == saved.tensors["i"].item() == times


def test_a_writer_that_never_rests_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = replaced_before_reading(folder, 1000, monkeypatch)
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_model(folder)
    assert saves[0] < 100


def test_tensors_that_are_really_missing_are_reported(folder: Path) -> None:
    tensors_file(folder).unlink()
    with pytest.raises(
        ModelFileError, match=r"safetensors: cannot be read \(No such file.*fit again"
    ):
        read_model(folder)


def test_a_folder_removed_while_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.suffix == ".safetensors":
            shutil.rmtree(folder)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with pytest.raises(ModelFileError, match="not a model folder"):
        read_model(folder)


# --- options changed after the fit -------------------------------------------------------------

ROWS = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)).numpy()


@pytest.mark.parametrize("k", [2, 4])
def test_the_number_of_clusters_is_that_of_the_fit(tmp_path: Path, k: int) -> None:
    model = tell.TELL(3, random_state=0).fit(ROWS)
    model.set_params(n_clusters=k)
    model.save(tmp_path / "model")
    loaded = tell.load(tmp_path / "model")
    assert loaded.n_clusters == 3
    assert model.n_clusters == k  # saving changes no option
    assert (loaded.predict(ROWS) == model.predict(ROWS)).all()
    loaded.partial_fit(ROWS)


def test_a_device_may_be_an_object(tmp_path: Path) -> None:
    model = tell.TELL(3, random_state=0, device=torch.device("cpu")).fit(ROWS)  # type: ignore[arg-type]
    model.save(tmp_path / "model")
    loaded = tell.load(tmp_path / "model")
    assert loaded.device == "cpu"
    assert (loaded.predict(ROWS) == model.labels_).all()
    write_model(tmp_path / "other", "DeepTELL", {"device": torch.device("cuda", 1)}, {})
    assert read_model(tmp_path / "other").config == {"device": "cuda:1"}


# --- other people's folders --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["thesis.tex", "data.csv", "model.json.bak", ".git"])
def test_folders_with_other_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ModelFileError, match=name):
        write_model(tmp_path, "TELL", CONFIG, TENSORS)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    with pytest.raises(ModelFileError, match="is a file"):
        write_model(tmp_path / "model", "TELL", CONFIG, TENSORS)


def test_a_place_is_tried_and_nothing_is_left(folder: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for place in (folder, tmp_path / "new", tmp_path / "new" / "and" / "deeper"):
        check_place(place)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_place_where_no_folder_can_be_made() -> None:
    with pytest.raises(ModelFileError, match="got 'no such file or directory' at /proc; choose"):
        check_place("/proc/foo/model")


def test_what_cannot_be_written_leaves_the_old_model(folder: Path) -> None:
    with pytest.raises(TypeError):
        write_model(folder, "TELL", {"bad": object()}, {"a": torch.ones(3)})
    assert read_model(folder).config == CONFIG


# --- crashes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("failing_call", range(1, 7))
def test_a_crash_at_any_step_leaves_a_whole_model(
    folder: Path, failing_call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine stops at the first, second, … fsync or rename of a save."""
    calls = 0

    def crashing(real: Any) -> Any:
        def wrapper(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == failing_call:
                raise KeyboardInterrupt
            return real(*args)

        return wrapper

    monkeypatch.setattr(persistence.os, "fsync", crashing(persistence.os.fsync))
    monkeypatch.setattr(Path, "replace", crashing(Path.replace))
    with pytest.raises(KeyboardInterrupt):
        write_model(folder, "TELL", {"new": True}, {"a": torch.ones(3)})
    assert read_model(folder).config in (CONFIG, {"new": True})
    monkeypatch.undo()
    write_model(folder, "TELL", {"newer": True}, {"a": torch.ones(3)})
    assert read_model(folder).config == {"newer": True}


SAVING = """
    import sys, torch
    from tell.persistence import write_model
    i = 0
    while True:
        i += 1
        tensors = {"a": torch.full((50_000,), float(i)), "i": torch.tensor([i])}
        write_model(sys.argv[1], "TELL", {"i": i}, tensors)
        print(i, flush=True)
"""


def test_kills_leave_a_whole_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    command = [sys.executable, "-c", textwrap.dedent(SAVING), str(folder)]
    for delay in (0.013, 0.037):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()  # one save is through
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        saved = read_model(folder)
        assert saved.tensors["i"].item() == saved.config["i"]
        assert (saved.tensors["a"] == saved.config["i"]).all()
    write_model(folder, "TELL", CONFIG, TENSORS)  # what a kill left behind is no hindrance
    assert read_model(folder).config == CONFIG
    assert sorted(path.suffix for path in folder.iterdir() if path.suffix != ".part") == [
        ".json",
        ".safetensors",
    ]
