"""Kept memory: it nests, survives errors and threads, changes no number and ends."""

from __future__ import annotations

import ctypes
import resource
import sys
import threading

import pytest
import torch

from tell.core import memory
from tell.core.memory import kept_memory


class FakeLibrary:
    """Notes what is asked of the allocator."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        self.trims = 0

    def mallopt(self, option: int, value: int) -> int:
        self.calls.append((option, value))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.trims += 1
        return 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    fake = FakeLibrary()
    monkeypatch.setattr(memory, "_glibc", lambda: fake)
    monkeypatch.setattr(memory, "_ask_for_huge_pages", lambda glibc: None)
    return fake


def test_nested_uses_are_one(library: FakeLibrary) -> None:
    with kept_memory():
        with kept_memory():
            pass
        assert library.calls == list(memory.KEEP.items())
        assert library.trims == 0
    assert library.calls == [*memory.KEEP.items(), *memory.USUAL.items()]
    assert library.trims == 1


def test_what_the_environment_has_set_is_put_back(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MALLOC_TOP_PAD_", "4096")
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "8")  # glibc prefers what comes next
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.mmap_max=0x10:glibc.malloc.trim_threshold=x")
    with kept_memory():
        pass
    ended = dict(library.calls[len(memory.KEEP) :])
    assert ended == {**memory.USUAL, memory.TOP_PAD: 4096, memory.MMAP_MAX: 16}


def test_an_error_ends_it_too(library: FakeLibrary) -> None:
    with pytest.raises(KeyError), kept_memory():
        raise KeyError
    assert library.calls[-1] == list(memory.USUAL.items())[-1]


def test_all_that_is_changed_is_set_back_and_fits_a_c_int() -> None:
    assert memory.KEEP.keys() <= memory.USUAL.keys()
    for value in (*memory.KEEP.values(), *memory.USUAL.values()):
        assert ctypes.c_int(value).value == value


def test_nothing_happens_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory._glibc() is None
    with kept_memory():
        assert torch.ones(3).sum() == 3


def test_threads_may_enter_and_leave_in_any_order() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with kept_memory():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with kept_memory():
        thread.start()
        entered.wait()
    assert memory._users == 1
    leave.set()
    thread.join()
    assert memory._users == 0


@pytest.mark.skipif(memory._glibc() is None, reason="acts on glibc only")
def test_pages_are_not_asked_for_again() -> None:
    def faults_of(steps: int) -> int:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for _ in range(steps):
            torch.ones(16 * 2**20)  # 64 MiB: more than glibc keeps by itself
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

    with kept_memory():
        faults_of(2)
        assert faults_of(5) < 1000  # 16384 pages a step otherwise
