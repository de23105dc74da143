"""Prefill and decode servers: a request is on both, and so goes its abort."""

from __future__ import annotations

from router_stage import NEVER, Stage, in_thread, wait_until

from abort_sync import Status, new_rid

MODE = "prefill/decode"


def test_prefill_and_decode_workers_are_both_listed(stage: Stage) -> None:
    """`workers()` gives the servers of both kinds, with their kind where the router tells it."""
    workers = stage.client().workers()

    first, second, decode = stage.by_url
    kinds = {first: "prefill", second: "prefill", decode: "decode"}
    if not stage.program.tells_details:
        kinds = dict.fromkeys(kinds, None)
    assert {worker.url: worker.kind for worker in workers} == kinds
    assert len(workers) == 3


def test_one_abort_reaches_prefill_and_decode_exactly_once(stage: Stage) -> None:
    """An abort goes once to every server of both kinds."""
    rid = new_rid()
    for worker in stage.by_url.values():
        worker.start_generation(rid)

    report = stage.client().abort_request(rid)

    assert report.ok, str(report)
    assert stage.running(rid) == set()
    for url in stage.by_url:
        assert stage.aborts(url, rid) == [{"rid": rid, "abort_all": False}]


def test_a_request_ends_on_both_sides(stage: Stage) -> None:
    """`abort_until_idle` also ends a decode that the router starts only after the aborted prefill (vllm-router)."""
    rid, held = new_rid(), new_rid()
    first, *_ = stage.by_url
    generation = stage.generate(rid)
    stage.wait_running(rid)
    # Keeps the call going until the router is done, however slow it is.
    stage.by_url[first].start_generation(held, ignore_first_aborts=NEVER)

    call = in_thread(stage.client().abort_until_idle, [rid], timeout_s=120.0)
    wait_until(generation.done, "the router answers its client")
    assert stage.running(rid) == set()
    stage.by_url[first].finish_generation(held)

    report = call.result(timeout=120.0)
    assert report.ok, str(report)
    assert {(one.target, one.status) for one in report.outcomes} == {(url, Status.IDLE) for url in stage.by_url}
    assert generation.result().status_code == 200
