"""F8: thousands of calls leave no descriptor, no thread and no memory behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from abort_sync import AbortClient

CALLS = 5_000
MOST_BLOCKS = CALLS // 5
"""So many more memory blocks than before may be allocated afterwards: one left behind by every fifth call would be too many."""
SERVER = """
import sys
from abort_sync.testing import LoopbackWorker
worker = LoopbackWorker()
print(worker.url, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def url() -> Iterator[str]:
    """A worker in another process, so that what it holds is not counted."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        yield server.stdout.readline().strip()
        server.stdin.close()


def measured() -> dict[str, int]:
    """Return how many descriptors, threads and memory blocks there are, once what has ended is gone."""
    ends = time.monotonic() + 10.0
    while len(os.listdir("/proc/self/task")) > threading.active_count() and time.monotonic() < ends:
        time.sleep(0.01)  # the kernel lists a thread for a moment after its last word
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "blocks": sys.getallocatedblocks(),
    }


def one_client(url: str) -> Callable[[], object]:
    client = AbortClient(worker_urls=[url], timeout_s=30.0)
    return lambda: client.abort_request("leak").raise_if_incomplete()


def a_client_each(url: str) -> Callable[[], object]:
    return lambda: AbortClient(worker_urls=[url], timeout_s=30.0).abort_request("leak").raise_if_incomplete()


@pytest.mark.leaks
@pytest.mark.parametrize("kind", [one_client, a_client_each])
def test_thousands_of_calls_leave_nothing_behind(
    url: str, kind: Callable[[str], Callable[[], object]], capsys: pytest.CaptureFixture[str]
) -> None:
    """After 5,000 calls, with one client or with a client for each, descriptors, threads and memory are back where they were."""
    call = kind(url)
    for _ in range(200):  # what is kept once, for all calls
        call()
    before, began = measured(), time.monotonic()
    for _ in range(CALLS):
        call()
    took_s, after = time.monotonic() - began, measured()
    with capsys.disabled():
        print(f"\n{kind.__name__}: {CALLS} calls in {took_s:.1f} s; before {before}, after {after}")
    assert after["descriptors"] <= before["descriptors"]
    assert after["threads"] <= before["threads"]
    assert after["blocks"] <= before["blocks"] + MOST_BLOCKS
