"""A router and an agent server on loopback answer as the real ones do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from plain_http import call, raw

from abort_sync.testing import Behaviour, LocalFleet

SHORT = {"text": "x", "sampling_params": {"max_new_tokens": 1}}

FLUSH_MINE = b'POST /flush HTTP/1.1\r\nauthorization: Bearer secret\r\ncontent-length: 38\r\n\r\n{"session_server_instance_id": "mine"}'


@pytest.fixture
def fleet() -> Iterator[LocalFleet]:
    with LocalFleet(workers=3, agent_secret="secret", teardown_s=0.2) as running:
        yield running


@pytest.mark.parametrize(("dialect", "workers", "list_workers"), [("workers", 200, 404), ("list_workers", 404, 200), ("both", 200, 200)])
def test_a_router_lists_in_its_dialect(dialect: str, workers: int, list_workers: int) -> None:
    """Each dialect has its own listing routes; the others are 404 with an empty body, as for a real router."""
    with LocalFleet(workers=2, dialect=dialect) as fleet:
        as_objects, as_urls = call(f"{fleet.router_url}/workers"), call(f"{fleet.router_url}/list_workers")
        assert (as_objects.status, as_urls.status) == (workers, list_workers)
        if workers == 200:
            assert [one["url"] for one in as_objects.json["workers"]] == list(fleet.worker_urls)
            assert as_objects.json["total"] == as_objects.json["stats"]["regular_count"] == 2
        if list_workers == 200:
            assert as_urls.json == {"urls": list(fleet.worker_urls)}
        assert {one.body for one in (as_objects, as_urls) if one.status == 404} <= {b""}


@pytest.mark.parametrize("path", ["/abort_request", "/v1/abort_request", "/workers/", "//workers"])
def test_a_router_has_no_other_route(fleet: LocalFleet, path: str) -> None:
    """A router has no abort route, and its listing bears no further slash."""
    answer = call(f"{fleet.router_url}{path}", {"rid": "x", "abort_all": False} if "abort" in path else None)
    assert (answer.status, answer.body) == (404, b"")


@pytest.mark.parametrize("header", [None, "Bearer wrong", "bearer key", "Basic key"])
def test_a_router_with_a_key_wants_it(header: str | None) -> None:
    """Without the key, or with a small b in Bearer, the listing is 401 with an empty body."""
    with LocalFleet(workers=1, router_key="key") as fleet:
        answer = call(f"{fleet.router_url}/workers", headers={"authorization": header} if header else {})
        assert (answer.status, answer.body) == (401, b"")
        assert call(f"{fleet.router_url}/workers", headers={"authorization": "Bearer key"}).status == 200


def test_a_listing_can_be_any_text(fleet: LocalFleet) -> None:
    """A test may list what it likes, ranks and other schemes included."""
    odd = ("http://127.0.0.1:1@0", "grpc://127.0.0.1:2", "")
    fleet.router.worker_urls = odd
    assert tuple(one["url"] for one in call(f"{fleet.router_url}/workers").json["workers"]) == odd


def test_generations_go_to_the_workers_in_turn(fleet: LocalFleet) -> None:
    """The router passes a generation to one worker after the other, and its answer back."""
    answers = [call(f"{fleet.router_url}/generate", {**SHORT, "rid": f"rid-{number}"}) for number in range(3)]
    assert [one.json["meta_info"]["id"] for one in answers] == ["rid-0", "rid-1", "rid-2"]
    assert [worker.requests[0].json["rid"] for worker in fleet.workers] == ["rid-0", "rid-1", "rid-2"]


def test_a_rid_is_sent_again_to_the_next_worker(fleet: LocalFleet) -> None:
    """Where a worker is dead or answers 503, the same rid goes to the next one."""
    fleet.workers[0].kill()
    fleet.workers[1].behave(Behaviour.answer(503))
    assert call(f"{fleet.router_url}/generate", {**SHORT, "rid": "again"}).status == 200
    assert [one.json["rid"] for worker in fleet.workers[1:] for one in worker.requests] == ["again", "again"]


def test_a_router_without_a_live_worker_answers_503(fleet: LocalFleet) -> None:
    """With all workers dead, or none listed, a generation gets 503."""
    for worker in fleet.workers:
        worker.kill()
    assert call(f"{fleet.router_url}/generate", SHORT).status == 503
    fleet.router.worker_urls = ()
    assert call(f"{fleet.router_url}/generate", SHORT).status == 503


def flush(fleet: LocalFleet, body: Any, secret: str | None = "secret") -> Any:
    headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
    return call(f"{fleet.agent_url}/flush", body, headers=headers)


def test_a_flush_cancels_the_runs_of_its_instance_after_their_teardown(fleet: LocalFleet) -> None:
    """A flush counts what it cancelled, answers after the teardown, and leaves other instances alone."""
    fleet.agent.start_runs("mine", 2)
    fleet.agent.start_runs("mine")
    fleet.agent.start_runs("other")
    started = time.monotonic()
    answer = flush(fleet, {"session_server_instance_id": "mine"})
    assert time.monotonic() - started >= 0.2
    assert (answer.status, answer.json) == (200, {"session_server_instance_id": "mine", "cancelled": 3})
    assert fleet.agent.running == {"other": 1}


def test_waiting_runs_start_after_the_flush(fleet: LocalFleet) -> None:
    """Trials that wait for a slot are not counted: they start afterwards, and the next flush finds them."""
    fleet.agent.start_runs("mine", 1)
    fleet.agent.waiting("mine", 2)
    counts = [flush(fleet, {"session_server_instance_id": "mine"}).json["cancelled"] for _ in range(3)]
    assert counts == [1, 2, 0]
    assert fleet.agent.running == {}


def test_an_unknown_instance_is_answered_with_0(fleet: LocalFleet) -> None:
    """An instance without runs is no error."""
    assert flush(fleet, {"session_server_instance_id": "?"}).json == {"session_server_instance_id": "?", "cancelled": 0}


@pytest.mark.parametrize("secret", [None, "wrong", ""])
def test_a_wrong_secret_gets_401_and_cancels_nothing(fleet: LocalFleet, secret: str | None) -> None:
    """The secret is looked at before the body."""
    fleet.agent.start_runs("mine")
    assert flush(fleet, {"session_server_instance_id": "mine"}, secret).status == 401
    assert flush(fleet, b"not json", secret).status == 401
    assert fleet.agent.running == {"mine": 1}


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b"{}", b'{"session_server_instance_id": 7}'])
def test_a_bad_flush_gets_422(fleet: LocalFleet, body: bytes) -> None:
    """A body without an instance id that is text is refused."""
    assert flush(fleet, body).status == 422


def test_other_routes_of_the_agent_server(fleet: LocalFleet) -> None:
    """Only POST flushes, and there is nothing else but `/health`."""
    assert call(f"{fleet.agent_url}/flush").status == 405
    assert call(f"{fleet.agent_url}/abort", {}).status == 404


def test_a_client_that_leaves_does_not_stop_the_teardown(fleet: LocalFleet) -> None:
    """A flush whose client gives up has cancelled the runs; a repeated one finds none to count."""
    fleet.agent.start_runs("mine")
    fleet.agent.behave([Behaviour.hang(obey=True)])
    with raw(fleet.agent_url or "", FLUSH_MINE):
        fleet.agent.wait_until(lambda agent: not agent.running)
    assert flush(fleet, {"session_server_instance_id": "mine"}).json["cancelled"] == 0
