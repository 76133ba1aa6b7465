"""Several writers and readers of one model folder: nothing lost, nothing damaged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tell
from tell import TELL, persistence
from tell.exceptions import ModelChangedError, ModelFileError
from tell.files import locked
from tell.persistence import read_model, write_model

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(60, 4)).astype(np.float32)
# `make attack` has eight of each for a minute.
WRITERS = int(os.environ.get("TELL_ATTACK_WRITERS", "3"))
SECONDS = float(os.environ.get("TELL_ATTACK_SECONDS", "3"))


def environment() -> dict[str, str]:
    source = str(Path(tell.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    TELL(3, random_state=0).fit(ROWS).save(tmp_path / "model")
    return tmp_path / "model"


# --- one folder, several processes -------------------------------------------------------------

SAVING = """
    import sys, time, torch
    from tell.persistence import write_model
    number, end = int(sys.argv[2]), time.time() + float(sys.argv[3])
    i = 0
    while time.time() < end:
        i += 1
        value = float(number * 1_000_000 + i)
        write_model(sys.argv[1], "TELL", {"value": value}, {"a": torch.full((5_000,), value)})
    print(i)
"""


def test_readers_see_whole_models_while_many_write(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_model(folder, "TELL", {"value": 0.0}, {"a": torch.zeros(5_000)})
    writers = [start(SAVING, folder, number, SECONDS) for number in range(WRITERS)]
    reads = 0
    while any(writer.poll() is None for writer in writers):
        saved = read_model(folder)
        assert (saved.tensors["a"] == saved.config["value"]).all()
        reads += 1
    saves = [int(writer.communicate()[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * WRITERS
    assert min(saves) > 0
    assert reads > 10
    assert len(list(folder.iterdir())) == 2


# Every process learns rows by loading, learning and saving, and tries again when it was refused.
LEARNING = """
    import sys, time
    import numpy as np
    import tell
    from tell.exceptions import ModelChangedError
    folder, number, end = sys.argv[1], int(sys.argv[2]), time.time() + float(sys.argv[3])
    random, acknowledged = np.random.default_rng(number), 0
    while time.time() < end or not acknowledged:
        model = tell.load(folder)
        rows = random.normal(size=(1 + int(random.integers(5)), 4))
        model.partial_fit(rows)
        try:
            model.save(folder)
        except ModelChangedError:
            continue
        acknowledged += len(rows)
    print(acknowledged)
"""


def test_every_acknowledged_row_is_in_the_model(folder: Path) -> None:
    before = tell.load(folder)._state.seen
    writers = [start(LEARNING, folder, number, SECONDS) for number in range(WRITERS)]
    acknowledged = sum(int(writer.communicate(timeout=120 + 10 * SECONDS)[0]) for writer in writers)
    assert acknowledged >= WRITERS
    assert tell.load(folder)._state.seen == before + acknowledged


def test_a_lock_ends_with_the_process_that_held_it(folder: Path) -> None:
    holding = """
        import sys, time
        from pathlib import Path
        from tell.files import locked
        with locked(Path(sys.argv[1])):
            print("locked", flush=True)
            time.sleep(600)
    """
    owner = start(holding, folder)
    assert owner.stdout is not None
    owner.stdout.readline()
    with pytest.raises(TimeoutError, match=r"locked for 0\.1 s"), locked(folder, seconds=0.1):
        pass
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    started = time.monotonic()
    tell.load(folder).save(folder)
    assert time.monotonic() - started < 5


def test_a_lock_that_never_ends_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistence, "locked", lambda place: locked(place, seconds=0.05))
    model = tell.load(folder)
    with locked(folder), pytest.raises(ModelFileError, match=r"locked for 0\.05 s.*save again"):
        model.save(folder)
    model.save(folder)


def test_where_a_folder_cannot_be_locked_a_file_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tell import files

    real = files.fcntl.flock

    def flock(handle: int, how: int) -> None:
        if Path(f"/proc/self/fd/{handle}").resolve().is_dir():
            raise OSError(9, "Bad file descriptor")
        real(handle, how)

    monkeypatch.setattr(files.fcntl, "flock", flock)
    with locked(folder), pytest.raises(TimeoutError), locked(folder, seconds=0.05):
        pass
    tell.load(folder).save(folder)
    assert tell.load(folder).n_clusters == 3
    assert (folder / ".lock").exists()


# --- changed since it was loaded ---------------------------------------------------------------


def test_a_model_that_changed_since_it_was_loaded_is_not_overwritten(folder: Path) -> None:
    one, other = tell.load(folder), tell.load(folder)
    one.partial_fit(ROWS[:7])
    one.save(folder)
    other.partial_fit(ROWS[:5])
    with pytest.raises(ModelChangedError, match=r"changed by somebody else.*load it again"):
        other.save(folder)
    assert tell.load(folder)._state.seen == one._state.seen
    one.partial_fit(ROWS[:3])
    one.save(folder)  # its own earlier save is no surprise
    other.save(folder.parent / "elsewhere")


def test_a_new_model_may_replace_an_old_one(folder: Path) -> None:
    TELL(2, random_state=0).fit(ROWS).save(folder)
    assert tell.load(folder).n_clusters == 2


def test_a_folder_that_is_gone_is_written_again(folder: Path) -> None:
    import shutil

    model = tell.load(folder)
    shutil.rmtree(folder)
    model.save(folder)
    assert tell.load(folder).n_clusters == 3


# --- `tell update` twice -----------------------------------------------------------------------


def update(folder: Path, data: Path, *more: str) -> subprocess.Popen[str]:
    program = "import sys; from tell.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "update", str(folder), str(data), "--json", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())


def test_two_updates_at_once_lose_no_row(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    model = TELL(3, random_state=0).fit(ROWS)
    model.save(folder, metadata={"rows_seen": 60})
    counts = {"a.csv": 3_000, "b.csv": 2_000}
    for name, n in counts.items():
        np.savetxt(tmp_path / name, RANDOM.normal(size=(n, 4)), delimiter=",", header="a,b,c,d")
    options = ("--batch", "50", "--save-rows", "100")
    both = [update(folder, tmp_path / name, *options) for name in counts]
    results = [json.loads(process.communicate(timeout=200)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [result["rows"] for result in results] == [3_000, 2_000]
    loaded = tell.load(folder)
    assert loaded._state.seen == 5_060
    assert loaded.metadata_["rows_seen"] == 5_060


# --- threads -----------------------------------------------------------------------------------


def in_threads(*targets: Any) -> None:
    failures: list[BaseException] = []

    def guarded(target: Any) -> None:
        try:
            target()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_that_learn_into_one_model_lose_no_row() -> None:
    model = TELL(3, random_state=0).fit(ROWS)

    def learn() -> None:
        for start in range(0, 1_600, 8):
            model.partial_fit(ROWS[start % 48 :][:8])

    in_threads(*[learn] * 4)
    assert model._state.seen == 60 + 4 * 1_600


def test_threads_that_learn_fail_and_predict(tmp_path: Path) -> None:
    """A call that fails gives the model back without another thread seeing it undone."""
    model = TELL(3, random_state=0).fit(ROWS)
    seen = Counter[str]()

    def learn() -> None:
        for _ in range(150):
            model.partial_fit(ROWS[:8])
            seen["learned"] += 8

    def fail() -> None:
        for _ in range(150):
            with pytest.raises(ValueError):
                model.partial_fit(np.full((2, 4), np.nan))

    def predict() -> None:
        for _ in range(150):
            assert model.predict(ROWS).shape == (60,)

    def save() -> None:
        for _ in range(20):
            model.save(tmp_path / "model")

    in_threads(learn, fail, predict, save)
    assert model._state.seen == 60 + seen["learned"]
    assert tell.load(tmp_path / "model").n_clusters == 3


# --- links -------------------------------------------------------------------------------------


def test_a_link_in_the_folder_does_not_lead_out_of_it(folder: Path) -> None:
    victim = folder.parent / "victim.txt"
    victim.write_text("precious")
    (folder / ".model.json.part").symlink_to("../victim.txt")
    (folder / ".lock").symlink_to("../victim.txt")
    model = tell.load(folder)
    model.partial_fit(ROWS)
    model.save(folder)
    assert victim.read_text() == "precious"
    assert tell.load(folder)._state.seen == 120
    assert not (folder / ".model.json.part").is_symlink()  # nobody's: the lock is held
