"""Keep the memory that one training step frees for the next step.

Every step allocates and frees the same activations and gradients. They are large blocks, and those
glibc hands back to the system at once, so that the kernel must find, clear and map their pages anew
in the next step, which costs a convolutional network a tenth of its time on a CPU. Where the kernel
offers huge pages on request, they are asked for too: fewer pages to find and to look up.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# Numbers of mallopt's options, from glibc's malloc.h.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, MMAP_MAX = -1, -2, -3, -4

MIB = 2**20
KEEP = {MMAP_MAX: 0, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 64 * MIB}
# glibc cannot be asked for its settings: what the environment does not set is put back to its
# defaults, with both thresholds where its own adaptation ends once a block of 32 MiB was freed.
USUAL = {MMAP_MAX: 65536, TRIM_THRESHOLD: 64 * MIB, TOP_PAD: MIB // 8, MMAP_THRESHOLD: 32 * MIB}

NAMES = {
    MMAP_MAX: "mmap_max",
    TRIM_THRESHOLD: "trim_threshold",
    TOP_PAD: "top_pad",
    MMAP_THRESHOLD: "mmap_threshold",
}

HUGE_PAGE = 2 * MIB
HUGE_PAGES_PLEASE = 14  # MADV_HUGEPAGE of Linux's mman.h
RESERVE = 1024 * MIB  # addresses only; pages come when a step writes to them

_lock = threading.Lock()
_users = 0


@contextmanager
def kept_memory() -> Iterator[None]:
    """Let the process keep what it frees; give it back to the system at the end.

    Acts on the C library's allocator, thus on CPU tensors, and with glibc only. Nested and parallel
    uses are one: the last to leave ends it.

    Examples
    --------
    >>> import torch
    >>> with kept_memory():
    ...     total = sum(float(torch.ones(1000, 1000).sum()) for _ in range(3))
    >>> total
    3000000.0
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _users
    with _lock:
        _users += 1
        if _users == 1 and (glibc := _glibc()) is not None:
            _set(glibc, KEEP)
            _ask_for_huge_pages(glibc)


def _leave() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0 and (glibc := _glibc()) is not None:
            _set(glibc, _settings_before())
            glibc.malloc_trim(0)


def _settings_before() -> dict[int, int]:
    """What the process was started with, by either way that glibc offers."""
    pairs = os.environ.get("GLIBC_TUNABLES", "").split(":")
    tunables = dict(pair.partition("=")[::2] for pair in pairs)
    found = dict(USUAL)
    for option, name in NAMES.items():
        # As glibc does where both are given.
        text = tunables.get(f"glibc.malloc.{name}") or os.environ.get(f"MALLOC_{name.upper()}_", "")
        with suppress(ValueError):  # glibc passes over what is not a number, too
            found[option] = min(int(text, 0), 2**31 - 1)
    return found


def _set(glibc: ctypes.CDLL, options: dict[int, int]) -> None:
    for option, value in options.items():
        glibc.mallopt(option, value)


def _ask_for_huge_pages(glibc: ctypes.CDLL) -> None:
    """Make the heap longer by a block that is freed again: what steps allocate comes from it."""
    glibc.malloc.restype = ctypes.c_void_p
    block = glibc.malloc(ctypes.c_size_t(RESERVE))
    if block is None:  # the system is strict about addresses; all works without them
        return
    first = -(-block // HUGE_PAGE) * HUGE_PAGE
    length = (block + RESERVE - first) // HUGE_PAGE * HUGE_PAGE
    glibc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(length), HUGE_PAGES_PLEASE)
    glibc.free(ctypes.c_void_p(block))


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
