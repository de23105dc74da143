"""One request among many, by its rid."""

from __future__ import annotations

import time

from abort_sync import Status, expand_batch_rids, is_aborted, new_rid

from . import traffic
from .traffic import Generation


def goes_on(generation: Generation) -> bool:
    """Return whether a generation, alone on its engine, makes more tokens from now on."""
    before = traffic.wait_for(generation.url, running=1)["num_used_tokens"]
    while traffic.load(generation.url).get("num_used_tokens", 0) < before + 20:
        if not generation.is_running:
            return False
    return generation.is_running


def test_one_of_many_is_aborted_and_the_others_live_on(client, router, engines):
    """One rid through the real router: that request ends with the text so far, every other one goes on."""
    others = [*traffic.start(engines[0], 5, "first"), *traffic.start(engines[1], 6, "second")]
    unlucky = Generation(engines[0], "unlucky")
    for url in engines:
        traffic.wait_for(url, running=6)

    report = client.abort_request("unlucky")

    assert report.ok, str(report)
    assert {(one.target, one.status, one.via) for one in report.outcomes} == {(url, Status.ACCEPTED, "router") for url in engines}
    answer = unlucky.wait()
    assert is_aborted(answer)
    assert answer["meta_info"]["completion_tokens"] > 0
    traffic.wait_for(engines[0], running=5)
    traffic.wait_for(engines[1], running=6)
    assert all(other.is_running for other in others)


def test_a_request_that_the_router_placed_is_found(client, router, engines):
    """Whichever engine the router chose, the abort reaches it."""
    placed = traffic.start(router, 8)
    while sum(traffic.load(url).get("num_running_reqs", 0) for url in engines) < 8:
        time.sleep(0.01)

    report = client.abort_requests([one.rid for one in placed[:4]])

    assert report.ok, str(report)
    assert len(report.outcomes) == 8
    assert all(is_aborted(one.wait()) for one in placed[:4])
    assert all(one.is_running for one in placed[4:])


def test_abort_frees_the_slot_at_once(client, engines, measured):
    """From the call to the answered generate, and to a load that shows the slot free, takes far less than a client's time-out."""
    answered, free = [], []
    for number in range(20):
        generation = Generation(engines[number % 2], new_rid())
        traffic.wait_for(generation.url, running=1)
        started = time.monotonic()
        assert client.abort_request(generation.rid).ok
        traffic.wait_for(generation.url, running=0)
        free.append(time.monotonic() - started)
        assert is_aborted(generation.wait())
        answered.append(generation.ended_at - started)
    measured("abort_request to the aborted generate's answer", answered)
    measured("abort_request to the slot free in /v1/loads", free)
    assert max(free) < 20.0


def test_a_live_rid_takes_those_that_begin_with_it_along(client, engines):
    """Documented of the engine: aborting a live `run-1` also ends `run-10`, but not `run-2`."""
    begun, longer, other = (Generation(engines[0], rid) for rid in ("run-1", "run-10", "run-2"))
    traffic.wait_for(engines[0], running=3)

    assert client.abort_request("run-1").ok

    assert is_aborted(begun.wait())
    assert is_aborted(longer.wait())
    assert goes_on(other)


def test_a_prefix_that_is_no_live_rid_ends_nothing(client, engines):
    """Documented of the engine: while no `run` is live, aborting `run` leaves `run-1` alone, and still answers 200."""
    generation = Generation(engines[0], "run-1")
    traffic.wait_for(engines[0], running=1)

    assert client.abort_request("run").ok

    assert goes_on(generation)


def test_fresh_rids_end_one_request_each(client, engines):
    """Rids by `new_rid` with one prefix never take one another along."""
    first, second = (Generation(engines[0], new_rid("run-1")) for _ in range(2))
    traffic.wait_for(engines[0], running=2)

    assert client.abort_request(first.rid).ok

    assert is_aborted(first.wait())
    assert goes_on(second)


def test_a_batch_is_aborted_by_its_expanded_rids(client, engines):
    """Documented of the engine: a batch's own rid ends nothing, the rids by `expand_batch_rids` end all of it."""
    body = {"rid": "batch", "input_ids": [[1, 2, 3], [4, 5, 6]], "sampling_params": {"max_new_tokens": traffic.ENDLESS, "ignore_eos": True}}
    batch = Generation(engines[0], "batch", body=body)
    used = traffic.wait_for(engines[0], running=2)["num_used_tokens"]

    assert client.abort_request("batch").ok
    while traffic.load(engines[0]).get("num_used_tokens", 0) < used + 40:
        assert batch.is_running

    assert client.abort_requests(expand_batch_rids("batch", 2)).ok
    assert [is_aborted(one) for one in batch.wait()] == [True, True]


def test_an_abort_that_comes_before_its_generate_is_forgotten(client, engines):
    """Documented of the engine, and why the guard aborts twice: the generate that comes later runs on."""
    assert client.abort_request("late").ok

    assert goes_on(Generation(engines[0], "late"))
