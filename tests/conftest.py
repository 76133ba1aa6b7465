"""Property tests draw the same examples on every run: a failure can be repeated anywhere."""

import signal
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# A shell starts what runs in its background with Ctrl-C ignored, and children would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=[1, 2], ids=["one-thread", "two-threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run a test with one and with two threads of torch: shared products differ in last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
