"""A blocking script whose request times out, with and without the guard."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time

import pytest
import requests

from abort_sync import new_rid

from . import traffic


def seconds_to_free(url: str, rid: str, guard) -> float | None:
    """Return the seconds from a client's time-out to the slot free, or None if the request was not even running by then."""
    is_over = threading.Event()
    running_at, free_at = [], []

    def watch():
        while not (running_at or is_over.is_set()):
            running_at.extend([time.monotonic()] * traffic.load(url).get("num_running_reqs", 0))
        while running_at and not free_at:
            free_at.extend([time.monotonic()] * (traffic.load(url).get("num_running_reqs", 1) == 0))

    watcher = threading.Thread(target=watch)
    watcher.start()
    sampling = {"max_new_tokens": traffic.ENDLESS, "ignore_eos": True}
    try:
        with pytest.raises(requests.ReadTimeout), guard:
            try:
                requests.post(f"{url}/generate", json={"rid": rid, "input_ids": [1, 2, 3], "sampling_params": sampling}, timeout=1.0)
            finally:
                timed_out_at = time.monotonic()
    finally:
        is_over.set()
        watcher.join(60.0)
    return free_at[0] - timed_out_at if running_at and running_at[0] < timed_out_at else None


def test_the_guard_frees_the_slot_that_a_time_out_leaves_busy(client, engines, measured):
    """Without the guard the engine decodes on for seconds for nobody; with it the slot is free at once."""
    without, guarded = [], []
    while len(without) < 3:
        without += filter(None, [seconds_to_free(engines[0], new_rid(), contextlib.nullcontext())])
        traffic.abort_everything(engines[0])
    while len(guarded) < 3:
        rid = new_rid()
        guard = client.abort_on_exit(rid)
        guarded += filter(None, [seconds_to_free(engines[0], rid, guard)])
        assert guard.report.ok, str(guard.report)
        traffic.abort_everything(engines[0])
    measured("a client's time-out to the slot free, no guard", without)
    measured("a client's time-out to the slot free, with abort_on_exit", guarded)
    assert statistics.median(guarded) < statistics.median(without)


def test_a_block_that_ends_well_aborts_nothing(client, engines):
    """The guard of a request that was answered leaves the engine's other requests alone, also those that share its prefix."""
    other = traffic.Generation(engines[0], "run-10")
    traffic.wait_for(engines[0], running=1)

    with client.abort_on_exit("run-1") as guard:
        answer = traffic.Generation(engines[0], "run-1", tokens=4).wait()

    assert guard.report is None
    assert answer["meta_info"]["completion_tokens"] == 4
    assert other.is_running
