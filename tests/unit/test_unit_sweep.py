"""Sweeps over workers, without sockets: who is sent what, and what each worker's outcome is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from call_stage import ScriptedTransport, stage
from fake_steps import Steps

from abort_sync import Keys, Outcome, Status
from abort_sync._answer import Answer, Order
from abort_sync._fleet import Fleet
from abort_sync._idle import Watch
from abort_sync._sweep import AbortSweep, IdleSweep

A, B = "http://a:1", "http://b:1"
LOST = Answer(error="timed out while waiting for the answer")
REFUSED = Answer(error="connection refused while connecting", is_sent=False, is_refused=True)


def load(running: int, **more: Any) -> Answer:
    return Answer(200, json.dumps({"loads": [{"num_running_reqs": running, "num_waiting_reqs": 0, **more}]}).encode())


def script(abort: Any = None, look: Any = None) -> Callable[[Order], Answer]:
    """Answer aborts and looks with these: one answer always, or several in turn, the last one for ever."""

    def turn(given: Any, usual: Answer) -> Callable[[], Answer]:
        answers = list(given) if isinstance(given, (list, tuple)) else [given or usual]
        return lambda: answers.pop(0) if len(answers) > 1 else answers[0]

    aborts, looks = turn(abort, Answer(200)), turn(look, load(0))
    return lambda order: aborts() if order.url.endswith("/abort_request") else looks()


def once(
    rids: list[Any], answer: Callable[[Order], Answer], workers: tuple[str, ...] = (A, B), **client: Any
) -> tuple[Any, ScriptedTransport]:
    call, transport = stage(answer, worker_urls=workers, **client)
    sweep = AbortSweep(Fleet(call, {}, may_use_last_known=True), rids)
    assert Steps().run(sweep.work())
    return sweep.outcomes(), transport


def idle(
    answer: Callable[[Order], Answer],
    *,
    rids: Any = ("r",),
    settle: int = 2,
    workers: tuple[str, ...] = (A,),
    seconds: float = 3.0,
    **client: Any,
) -> tuple[Outcome, ScriptedTransport, IdleSweep]:
    """Sweep until idle for so many seconds of the steps' clock, and return the first worker's outcome."""
    call, transport = stage(answer, worker_urls=workers, **client)
    sweep = IdleSweep(Fleet(call, {}, may_use_last_known=True), rids, Watch(0.25, settle))
    Steps().run(sweep.work(), until_s=seconds)
    return sweep.outcomes()[0], transport, sweep


def test_rids_come_rid_major_and_each_once_a_worker() -> None:
    """One outcome per rid and worker, all workers of the first rid first; every body has both keys."""
    outcomes, transport = once(["r1", "r2"], script())
    assert [(one.rid, one.target, one.status, one.via) for one in outcomes] == [
        (rid, url, Status.ACCEPTED, "given") for rid in ("r1", "r2") for url in (A, B)
    ]
    bodies = sorted((one.url, json.loads(one.body or b"")["rid"], json.loads(one.body or b"")["abort_all"]) for one in transport.orders)
    assert bodies == [(f"{url}/abort_request", rid, False) for url in (A, B) for rid in ("r1", "r2")]


def test_everything_is_an_empty_rid_and_abort_all() -> None:
    """B4: what is named abort_all sends both keys too."""
    (outcome,), transport = once([None], script(), (A,))
    assert (outcome.rid, json.loads(transport.orders[0].body or b"")) == (None, {"rid": "", "abort_all": True})


@pytest.mark.parametrize(
    ("keys", "abort", "look"), [(Keys("r", "w", "a", "g"), "a", "w"), (Keys("r", "w", None, "g"), "w", "w"), (Keys("r"), None, None)]
)
def test_each_request_carries_its_own_key(keys: Keys, abort: str | None, look: str | None) -> None:
    """E7: an abort takes keys.worker_admin, else keys.worker; a look takes keys.worker; neither takes another."""
    _, transport, _ = idle(script(), keys=keys)
    carried = {(one.url.rpartition("/")[2].partition("?")[0], one.key) for one in transport.orders}
    assert carried == {("abort_request", abort), ("loads", look)}


@pytest.mark.parametrize("failure", [LOST, REFUSED])
def test_a_worker_that_does_not_answer_gets_no_more_rids(failure: Answer) -> None:
    """A worker found unreachable or timing out is spared the rest: NOT_SENT, with that cause."""
    outcomes, transport = once(["r1", "r2", "r3"], script(abort=failure), (A,))
    assert [one.status for one in outcomes] == [Status.UNKNOWN if failure.is_sent else Status.UNREACHABLE, Status.NOT_SENT, Status.NOT_SENT]
    assert all(
        "the abort before it at this worker failed" in str(one.error) and str(failure.error) in str(one.error) for one in outcomes[1:]
    )
    assert len(transport.orders) == 3  # three attempts at the first rid


def test_a_no_to_one_rid_does_not_stop_the_next() -> None:
    """A worker that answers gets every rid, whatever it answers."""
    outcomes, _ = once(["r1", "r2"], script(abort=[Answer(422), Answer(200)]), (A,))
    assert [one.status for one in outcomes] == [Status.REJECTED, Status.ACCEPTED]


def test_a_worker_that_http_cannot_reach_is_unsupported() -> None:
    """A gRPC worker is UNSUPPORTED, with a sentence that says what to do; nothing is sent to it."""
    listing = Answer(200, json.dumps({"workers": [{"url": "grpc://g:1"}, {"url": A}]}).encode())
    call, transport = stage(lambda order: listing if order.method == "GET" else Answer(200), router_url="http://router:1")
    sweep = AbortSweep(Fleet(call, {}, may_use_last_known=True), ["r"])
    assert Steps().run(sweep.work())
    grpc, http = sweep.outcomes()
    assert (grpc.status, grpc.target, http.status) == (Status.UNSUPPORTED, "grpc://g:1", Status.ACCEPTED)
    assert "start it with an HTTP port and give that in worker_urls" in str(grpc.error)
    assert [one.url for one in transport.orders if one.method == "POST"] == [f"{A}/abort_request"]


IDLE_CASES = {
    "idle at once": (script(), Status.IDLE, 0, None),
    "busy, then idle": (script(look=[load(2), load(1), load(0)]), Status.IDLE, 0, None),
    "flapping": (script(look=[load(0), load(1), load(0), load(0)]), Status.IDLE, 0, None),
    "busy to the end": (script(look=load(3)), Status.BUSY, 3, "3 requests are still there"),
    "prefilling to the end": (script(look=load(0, num_used_tokens=9)), Status.BUSY, 1, "1 requests are still there"),
    "load is no load": (script(look=Answer(200, b"[]")), Status.UNKNOWN, None, "a form that this client cannot read"),
    "load has no route": (script(look=Answer(404)), Status.UNKNOWN, None, "its load cannot be read: HTTP 404"),
    "load wants a key": (script(look=Answer(401)), Status.UNKNOWN, None, "keys.worker (ABORT_SYNC_WORKER_KEY)"),
    "load is lost": (script(look=LOST), Status.UNKNOWN, None, "its load cannot be read: timed out"),
    "load fails for a while": (script(look=[Answer(503), LOST, load(0)]), Status.IDLE, 0, None),
    "abort is refused, busy": (script(abort=Answer(401), look=load(2)), Status.REFUSED, 2, "keys.worker_admin"),
    "abort is refused, idle": (script(abort=Answer(401), look=load(0)), Status.IDLE, 0, None),
    "abort has no route": (script(abort=Answer(404), look=load(2)), Status.UNSUPPORTED, 2, "no such route"),
    "abort fails for a while": (script(abort=[Answer(500), LOST, Answer(200)], look=[load(1), load(0)]), Status.IDLE, 0, None),
    "abort is never answered": (script(abort=LOST), Status.UNKNOWN, None, "timed out"),
    "nobody listens": (script(abort=REFUSED, look=REFUSED), Status.UNREACHABLE, None, "connection refused"),
    "same snapshot for ever": (script(look=load(0, timestamp=5.0)), Status.UNKNOWN, 0, "reported no work 1 times"),
}


@pytest.mark.parametrize("name", IDLE_CASES)
def test_what_until_idle_says_of_a_worker(name: str) -> None:
    """IDLE needs readings without work in a row; BUSY says how many remain; what cannot be read is UNKNOWN, never zero."""
    answer, status, remaining, text = IDLE_CASES[name]
    outcome, _, _ = idle(answer)
    assert (outcome.status, outcome.remaining) == (status, remaining)
    assert (outcome.error is None) if text is None else (text in str(outcome.error))


def test_an_idle_worker_is_not_aborted_again() -> None:
    """B11: after a reading without work there is no further abort, only looks; while work is left each visit aborts once."""
    _, quiet, _ = idle(script(), settle=3)
    assert [one.method for one in quiet.orders] == ["POST", "GET", "GET", "GET"]
    _, busy, _ = idle(script(look=[load(1), load(1), load(0)]), rids=("r1", "r2"))
    assert [one.method for one in busy.orders] == ["POST", "POST", "GET"] * 3 + ["GET"]


def test_the_older_route_is_asked_where_the_newer_one_is_missing() -> None:
    """B6: /v1/loads, then /get_load; what was found is asked at the next look at once."""
    older = Answer(200, b'[{"num_reqs": 0, "num_waiting_reqs": 0}]')
    outcome, transport, _ = idle(lambda order: older if order.url.endswith("/get_load") else Answer(200 if order.method == "POST" else 404))
    assert outcome.status is Status.IDLE
    assert [one.url.rpartition(":1")[2] for one in transport.orders] == [
        "/abort_request",
        "/v1/loads?include=core",
        "/get_load",
        "/get_load",
    ]


def test_on_a_shared_fleet_a_busy_worker_is_unknown() -> None:
    """With exclusive=False the load says nothing about these rids: UNKNOWN with what runs there, and IDLE when nothing does."""
    outcome, _, _ = idle(script(look=load(2)), exclusive=False)
    assert (outcome.status, outcome.remaining) == (Status.UNKNOWN, 2)
    assert "the engine does not say whose" in str(outcome.error)
    assert idle(script(), exclusive=False)[0].status is Status.IDLE


def test_nothing_is_idle_while_agents_may_still_send() -> None:
    """Readings without work up to the deadline prove nothing while agents are not quiet."""
    call, _ = stage(script(), worker_urls=(A,))
    sweep = IdleSweep(Fleet(call, {}, may_use_last_known=True), ("r",), Watch(0.25, 2), is_producing=lambda: True)
    assert not Steps().run(sweep.work(), until_s=3.0)
    (outcome,) = sweep.outcomes()
    assert outcome.status is Status.UNKNOWN
    assert "before the agents were quiet" in str(outcome.error)


def test_a_worker_past_help_does_not_hold_up_the_rest() -> None:
    """A worker that nobody listens at is given up after two visits; the loop ends when all others are idle."""
    usual = script()
    call, transport = stage(lambda order: REFUSED if order.url.startswith(B) else usual(order), worker_urls=(A, B))
    sweep = IdleSweep(Fleet(call, {}, may_use_last_known=True), ("r",), Watch(0.25, 2))
    steps = Steps()
    assert steps.run(sweep.work())
    assert [one.status for one in sweep.outcomes()] == [Status.IDLE, Status.UNREACHABLE]
    assert steps.now < 2.0
    assert len([one for one in transport.orders if one.url.startswith(B)]) == 2
