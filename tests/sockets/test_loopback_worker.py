"""A worker on loopback answers as an SGLang server does."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from plain_http import Answer, call, raw

from abort_sync.testing import LocalFleet, LoopbackWorker

LONG = {"max_new_tokens": 1_000_000}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as executor:
        yield executor


@pytest.fixture
def worker(pool: ThreadPoolExecutor) -> Iterator[LoopbackWorker]:
    """One worker; it ends before the pool, so that calls to it end too."""
    with LocalFleet(workers=1) as fleet:
        yield fleet.workers[0]


def generate(pool: ThreadPoolExecutor, worker: LoopbackWorker, rid: str, **body: Any) -> Future[Answer]:
    """Start a generation by HTTP and return when it runs."""
    before = len(worker.running)
    future = pool.submit(call, f"{worker.url}/generate", {"rid": rid, "text": "x", "sampling_params": LONG, **body})
    worker.wait_until(lambda server: len(server.running) > before)
    return future


def abort(worker: LoopbackWorker, rid: Any, abort_all: Any = False, **options: Any) -> Answer:
    return call(f"{worker.url}/abort_request", {"rid": rid, "abort_all": abort_all}, **options)


def test_an_aborted_generation_answers_with_the_text_so_far(worker: LoopbackWorker, pool: ThreadPoolExecutor) -> None:
    """An abort gets 200 with an empty body, and its generation 200 with the finish reason `abort`."""
    future = generate(pool, worker, "rid-1")
    answer = abort(worker, "rid-1")
    assert (answer.status, answer.body) == (200, b"")
    generated = future.result(timeout=30)
    assert generated.status == 200
    assert generated.json["meta_info"]["id"] == "rid-1"
    assert generated.json["meta_info"]["finish_reason"] == {"type": "abort", "message": "Aborted"}
    assert generated.json["text"] == " token" * generated.json["meta_info"]["completion_tokens"]
    assert worker.running == frozenset()


def test_a_generation_that_reaches_its_length_says_so(worker: LoopbackWorker) -> None:
    """Without an abort a generation ends after `max_new_tokens` tokens, in the time that they take."""
    started = time.monotonic()
    answer = call(f"{worker.url}/generate", {"text": "x", "sampling_params": {"max_new_tokens": 10}}).json
    assert time.monotonic() - started >= 0.1
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 10}
    assert answer["text"] == " token" * 10


def test_a_generation_ended_by_hand_reached_its_length(worker: LoopbackWorker, pool: ThreadPoolExecutor) -> None:
    """A test can let a generation end well at the moment it chooses."""
    future = generate(pool, worker, "rid-1")
    worker.finish_generation("rid-1")
    assert future.result(timeout=30).json["meta_info"]["finish_reason"]["type"] == "length"
    with pytest.raises(KeyError):
        worker.finish_generation("rid-1")


@pytest.mark.parametrize(
    ("rid", "left"),
    [
        ("abc", {"ab", "x"}),
        ("a", {"ab", "abc", "abcd", "x"}),
        ("abcd", {"ab", "abc", "x"}),
        ("ab", {"x"}),
        ("unknown", {"ab", "abc", "abcd", "x"}),
        ("", {"ab", "abc", "abcd", "x"}),
        (None, {"ab", "abc", "abcd", "x"}),
    ],
)
def test_an_abort_matches_by_prefix_once_the_rid_is_live(worker: LoopbackWorker, rid: str | None, left: set[str]) -> None:
    """A live rid takes with it all that begin with it; one that is not live takes nothing."""
    for running in ("ab", "abc", "abcd", "x"):
        worker.start_generation(running)
    assert abort(worker, rid).status == 200
    assert worker.running == left


@pytest.mark.parametrize("value", [True, 1, "1", "true", "yes"])
def test_abort_all_ends_everything(worker: LoopbackWorker, value: Any) -> None:
    """Whatever SGLang reads as true ends all generations."""
    worker.start_generation("one")
    worker.start_generation()
    assert abort(worker, "", value).status == 200
    assert worker.running == frozenset()


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'"rid"', b'{"rid": ["a"]}', b'{"rid": 7}', b'{"rid": "a", "abort_all": null}'])
def test_a_bad_abort_gets_400_and_ends_nothing(worker: LoopbackWorker, body: bytes) -> None:
    """A body that SGLang cannot read is refused with 400."""
    worker.start_generation("a")
    assert call(f"{worker.url}/abort_request", body).status == 400
    assert worker.running == {"a"}


@pytest.mark.parametrize("body", [b"[]", b'{"rid": 7, "text": "x"}', b'{"text": "x", "sampling_params": {"max_new_tokens": "many"}}'])
def test_a_bad_generation_gets_400_and_leaves_nothing_running(worker: LoopbackWorker, body: bytes) -> None:
    """A generation that cannot be read is refused with 400 and does not count as running."""
    assert call(f"{worker.url}/generate", body).status == 400
    assert worker.running == frozenset()


def test_an_abort_by_get_is_not_allowed(worker: LoopbackWorker) -> None:
    """The abort route takes POST only; an unknown route is 404."""
    assert call(f"{worker.url}/abort_request").status == 405
    assert call(f"{worker.url}/nowhere", {}).status == 404


def test_first_aborts_can_be_ignored(worker: LoopbackWorker) -> None:
    """A scripted generation survives as many aborts as it was told to, each answered 200."""
    worker.start_generation("stubborn", ignore_first_aborts=2)
    seen = []
    for abort_all in (False, True, False):
        assert abort(worker, "stubborn", abort_all).status == 200
        seen.append(worker.running)
    assert seen == [{"stubborn"}, {"stubborn"}, frozenset()]


def test_a_live_rid_cannot_be_used_again(worker: LoopbackWorker) -> None:
    """A rid that is live gets 400 by HTTP and an error by hand; once ended it is free."""
    worker.start_generation("twice")
    body = {"rid": "twice", "text": "x", "sampling_params": {"max_new_tokens": 1}}
    assert call(f"{worker.url}/generate", body).status == 400
    with pytest.raises(ValueError, match="Duplicate request ID detected: twice"):
        worker.start_generation("twice")
    abort(worker, "twice")
    assert call(f"{worker.url}/generate", body).status == 200


@pytest.mark.parametrize("prompt", [{"text": ["x", "y"]}, {"text": None, "input_ids": [[1, 2], [3]]}])
def test_a_batch_has_numbered_rids(worker: LoopbackWorker, pool: ThreadPoolExecutor, prompt: dict[str, Any]) -> None:
    """A batch runs under `rid_0`, `rid_1`; its own rid aborts nothing."""
    future = generate(pool, worker, "grp", **prompt)
    abort(worker, "grp")
    assert worker.running == {"grp_0", "grp_1"}
    abort(worker, "grp_0")
    abort(worker, "grp_1")
    assert [one["meta_info"]["id"] for one in future.result(timeout=30).json] == ["grp_0", "grp_1"]


def test_an_aborted_stream_ends_with_done(worker: LoopbackWorker, pool: ThreadPoolExecutor) -> None:
    """A stream sends the abort as an event, then `[DONE]`."""
    future = generate(pool, worker, "rid-1", stream=True)
    abort(worker, "rid-1")
    event, done = future.result(timeout=30).body.decode().strip().split("\n\n")
    assert json.loads(event.partition(": ")[2])["meta_info"]["finish_reason"]["type"] == "abort"
    assert done == "data: [DONE]"


@pytest.mark.parametrize("by_reset", [False, True])
def test_a_stream_ends_when_its_client_leaves(worker: LoopbackWorker, by_reset: bool) -> None:
    """A client that goes away takes its streamed generation with it, whether it closes or resets."""
    body = json.dumps({"rid": "left", "text": "x", "stream": True, "sampling_params": LONG}).encode()
    with raw(worker.url, b"POST /generate HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)) as client:
        worker.wait_until(lambda server: server.running == {"left"})
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", by_reset, 0))
    worker.wait_until(lambda server: not server.running)


def test_a_stream_goes_on_while_its_client_stays(worker: LoopbackWorker) -> None:
    """Looking for the client does not end a stream that has one."""
    answer = call(f"{worker.url}/generate", {"text": "x", "stream": True, "sampling_params": {"max_new_tokens": 10}})
    event = answer.body.decode().partition("\n\n")[0].partition(": ")[2]
    assert json.loads(event)["meta_info"]["finish_reason"] == {"type": "length", "length": 10}


def test_loads_count_what_runs(worker: LoopbackWorker) -> None:
    """`/v1/loads` tells the running requests; the route of older servers is not there."""
    worker.start_generation()
    worker.start_generation()
    (load,) = call(f"{worker.url}/v1/loads").json["loads"]
    assert (load["dp_rank"], load["num_running_reqs"], load["num_waiting_reqs"]) == (0, 2, 0)
    assert call(f"{worker.url}/get_load").status == 404


def test_an_older_worker_tells_its_load_elsewhere() -> None:
    """With `load_routes=("/get_load",)` only that one answers."""
    with LocalFleet(workers=1, load_routes=("/get_load",)) as fleet:
        fleet.workers[0].start_generation()
        assert call(f"{fleet.worker_urls[0]}/get_load").json[0]["num_reqs"] == 1
        assert call(f"{fleet.worker_urls[0]}/v1/loads").status == 404


@pytest.mark.parametrize("path", ["/get_server_info", "/server_info", "/get_model_info", "/model_info"])
def test_a_router_learns_no_name_to_look_up(worker: LoopbackWorker, path: str) -> None:
    """A real router registers the worker from these, and has no model path to ask a hub for."""
    answer = call(f"{worker.url}{path}")
    assert answer.status == 200
    assert answer.json["model_path"] == answer.json["tokenizer_path"] == ""
    assert answer.json["dp_size"] == 1
    assert call(f"{worker.url}/v1/models").json["data"][0]["id"] == answer.json["served_model_name"]


@pytest.mark.parametrize(
    ("keys", "opens_abort", "opens_the_rest"),
    [
        ({}, {None, "api", "admin"}, {None, "api", "admin"}),
        ({"worker_key": "api"}, {"api"}, {"api"}),
        ({"worker_admin_key": "admin"}, {"admin"}, {None, "api", "admin"}),
        ({"worker_key": "api", "worker_admin_key": "admin"}, {"admin"}, {"api"}),
    ],
)
def test_keys_open_what_they_open_in_sglang(keys: dict[str, str], opens_abort: set[str | None], opens_the_rest: set[str | None]) -> None:
    """An admin key alone opens the abort where there is one; the API key opens generations and loads; health is open."""
    with LocalFleet(workers=1, **keys) as fleet:
        worker = fleet.workers[0]
        for key in (None, "api", "admin"):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            aborted = call(f"{worker.url}/abort_request", b"not json", headers=headers)
            assert aborted.status == (400 if key in opens_abort else 401)
            prompt = {"text": "x", "sampling_params": {"max_new_tokens": 1}}
            generated = call(f"{worker.url}/generate", prompt, headers=headers)
            assert generated.status == (200 if key in opens_the_rest else 401)
            assert call(f"{worker.url}/v1/loads", headers=headers).status == (200 if key in opens_the_rest else 401)
        assert call(f"{worker.url}/health").status == call(f"{worker.url}/health_generate").status == 200
        if keys:
            assert call(f"{worker.url}/abort_request", {}).json == {"error": "Unauthorized"}


def test_requests_of_many_threads_are_all_answered(worker: LoopbackWorker, pool: ThreadPoolExecutor) -> None:
    """Hundreds of aborts from eight threads are each answered, recorded and obeyed."""
    rids = [worker.start_generation() for _ in range(400)]
    assert {one.status for one in pool.map(lambda rid: abort(worker, rid), rids)} == {200}
    assert sorted(one.json["rid"] for one in worker.requests) == sorted(rids)
    assert worker.running == frozenset()
