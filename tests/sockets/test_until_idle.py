"""Abort until idle: what each outcome proves, and which workers count."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any, Callable

import pytest
from scripted import Scripted, answer, hang, json_answer, listing

from abort_sync import AbortClient, ConfigurationError, Limits, RoundEvent, Status
from abort_sync.testing import Behaviour, LocalFleet

FAST: dict[str, Any] = {"poll_s": 0.05, "timeout_s": 30.0}


def load(*running: int, **more: Any) -> bytes:
    """Return the answer of an engine with so many requests on each rank."""
    return json_answer({"loads": [{"num_running_reqs": count, "num_waiting_reqs": 0, **more} for count in running]})


def engine(*loads: Any, abort: Any = None) -> Scripted:
    """Return a worker that accepts aborts and tells these loads in turn."""
    return Scripted(routes={"/abort_request": answer() if abort is None else abort, "/v1/loads": loads})


def busy_while(is_so: Callable[[], bool]) -> Callable[[socket.socket], None]:
    """Return what tells a load of one request while something holds, then none."""
    return lambda connection: connection.sendall(load(1 if is_so() else 0))


def aborts(server: Scripted) -> int:
    return server.targets.count("POST /abort_request")


def looks(server: Scripted) -> int:
    return sum(target.startswith("GET /v1/loads") for target in server.targets)


def test_a_fleet_that_was_busy_is_idle_at_the_end() -> None:
    """Every worker is aborted until it has nothing left, and the outcomes say IDLE; no work runs on."""
    with LocalFleet(workers=3) as fleet:
        for worker in fleet.workers:
            for rid in ("a", "b"):
                worker.start_generation(rid)
        report = fleet.client().abort_until_idle(["a", "b"], **FAST)
        assert not any(worker.running for worker in fleet.workers)

    assert report.ok
    assert [(one.target, one.status, one.remaining, one.rid) for one in report.outcomes] == [
        (url, Status.IDLE, 0, None) for url in fleet.worker_urls
    ]


def test_everything_is_aborted_only_by_name() -> None:
    """``abort_all_until_idle`` sends ``abort_all``; ``abort_until_idle`` never does."""
    with LocalFleet(workers=1) as fleet:
        fleet.workers[0].start_generation("any")
        assert fleet.client().abort_all_until_idle(**FAST).ok
        sent = [one.json for one in fleet.workers[0].requests if one.method == "POST"]
    assert sent
    assert all(one == {"rid": "", "abort_all": True} for one in sent)


def test_what_survives_an_abort_is_aborted_again() -> None:
    """A request that is admitted but not yet scheduled survives the first abort: the next round sends it again."""
    with LocalFleet(workers=1) as fleet:
        fleet.workers[0].start_generation("a", ignore_first_aborts=2)
        report = fleet.client().abort_until_idle(["a"], **FAST)
        count = sum(one.path == "/abort_request" for one in fleet.workers[0].requests)

    assert report.ok
    assert count == 3


@pytest.mark.parametrize("settle", [1, 2, 4])
def test_idle_needs_several_readings_in_a_row(settle: int) -> None:
    """A load that flaps to zero is not believed: ``settle`` zeros in a row, and none of them before the last busy one."""
    loads = [load(1), load(0), load(2), load(0)]
    with engine(*loads) as worker:
        report = AbortClient(worker_urls=worker.url).abort_until_idle(["a"], settle=settle, **FAST)

    assert report.ok
    assert looks(worker) >= (2 if settle == 1 else 3 + settle)


def test_every_rank_and_every_token_counts() -> None:
    """One busy rank, a waiting request, or tokens in use: not idle."""
    waiting = json_answer({"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 3}]})
    with ExitStack() as stack:
        busy = [load(0, 1), load(0, num_used_tokens=5), load(0, num_waiting_uncached_tokens=7), waiting]
        urls = [stack.enter_context(engine(one)).url for one in busy]
        outcomes = AbortClient(worker_urls=urls).abort_until_idle(["a"], timeout_s=2.0, poll_s=0.05).outcomes

    assert [(one.status, one.remaining) for one in outcomes] == [(Status.BUSY, count) for count in (1, 1, 1, 3)]


def test_two_readings_of_one_snapshot_are_one_reading() -> None:
    """A load whose time stamp stands still is not a second reading; with a newer stamp it is."""
    with engine(load(0, timestamp=5.0)) as still, engine(*(load(0, timestamp=float(n)) for n in range(1000))) as moving:
        client = AbortClient(worker_urls=[still.url, moving.url])
        first, second = client.abort_until_idle(["a"], timeout_s=2.0, poll_s=0.05).outcomes

    assert (first.status, second.status) == (Status.UNKNOWN, Status.IDLE)
    assert "confirmed" in str(first.error)


@pytest.mark.parametrize("routes", [("/v1/loads",), ("/get_load",), ("/v1/loads", "/get_load")])
def test_older_loads_are_read_too(routes: tuple[str, ...]) -> None:
    """Where ``/v1/loads`` is no route the older one is asked; both are read as counts."""
    with LocalFleet(workers=1, load_routes=routes) as fleet:
        fleet.workers[0].start_generation("a")
        fleet.workers[0].start_generation("b")
        (seen,) = fleet.client().loads().values()
        report = fleet.client().abort_until_idle(["a", "b"], **FAST)

    assert seen is not None
    assert (seen.running, seen.waiting, seen.remaining) == (2, 0, 2)
    assert report.ok


def test_a_load_that_no_route_tells_is_unknown_and_never_zero() -> None:
    """Accepted, but unreadable: UNKNOWN without a count, at once, since another look would bring the same."""
    with LocalFleet(workers=1, load_routes=()) as fleet:
        report = fleet.client().abort_until_idle(["a"], **FAST)

    (outcome,) = report.outcomes
    assert (outcome.status, outcome.remaining, report.ok) == (Status.UNKNOWN, None, False)
    assert "its load cannot be read" in str(outcome.error)
    assert report.elapsed_s < 15.0


def test_busy_at_the_deadline_tells_what_remains() -> None:
    """A zombie request: back at the deadline, BUSY with the count, and nothing is sent afterwards."""
    with engine(load(2, 1)) as worker:
        report = AbortClient(worker_urls=worker.url).abort_until_idle(["a"], timeout_s=1.5, poll_s=0.05)
        asked = len(worker.asked)
        threading.Event().wait(0.3)
        assert len(worker.asked) == asked

    assert [(one.status, one.remaining) for one in report.outcomes] == [(Status.BUSY, 3)]
    assert 1.2 < report.elapsed_s < 4.5


def test_rounds_are_spaced_and_a_rid_is_sent_once_a_round() -> None:
    """Between two looks at a worker lies ``poll_s``, and before each look at most one abort a rid."""
    with LocalFleet(workers=1) as fleet:
        fleet.workers[0].start_generation("a", ignore_first_aborts=3)
        assert fleet.client().abort_until_idle(["a", "b"], poll_s=0.3, timeout_s=30.0).ok
        requests = fleet.workers[0].requests

    groups = itertools.groupby(requests, lambda one: one.method)
    assert [[one.json["rid"] for one in group] for method, group in groups if method == "POST"] == [["a", "b"]] * 4
    seen = [one.at for one in requests if one.method == "GET"]
    assert min(later - earlier for earlier, later in zip(seen, seen[1:])) >= 0.28


def test_a_shared_fleet_is_not_called_busy_with_our_rids() -> None:
    """``exclusive=False``: what runs may be others'; UNKNOWN says so, IDLE is still IDLE, and ``abort_all`` is refused."""
    with LocalFleet(workers=2) as fleet:
        fleet.workers[0].start_generation("theirs")
        client = fleet.client(exclusive=False)
        report = client.abort_until_idle(["ours"], timeout_s=2.0, poll_s=0.05)
        for call in (client.abort_all, client.abort_all_until_idle, lambda: client.teardown(abort_all=True)):
            with pytest.raises(ConfigurationError, match="exclusive=False"):
                call()
        assert fleet.workers[0].running == {"theirs"}

    assert [(one.status, one.remaining) for one in report.outcomes] == [(Status.UNKNOWN, 1), (Status.IDLE, 0)]
    assert "does not say whose" in str(report.outcomes[0].error)


def test_a_worker_that_is_listed_late_is_aborted_too() -> None:
    """The list is asked for again between rounds: a worker that comes in the middle has its abort and its outcome."""
    with engine(load(1), load(0)) as late, engine(busy_while(lambda: not late.asked)) as early:
        routes = {"/workers": [*[listing(early.url)["/workers"]] * 2, listing(early.url, late.url)["/workers"]]}
        with Scripted(routes=routes) as router:
            report = AbortClient(router.url).abort_until_idle(["a"], **FAST)

    assert [(one.target, one.status) for one in report.outcomes] == [(early.url, Status.IDLE), (late.url, Status.IDLE)]
    assert aborts(late) >= 2


def test_a_worker_that_leaves_the_list_still_counts() -> None:
    """Its requests run on when a router forgets it: it is aborted and looked at to the end."""
    with engine(busy_while(lambda: len(router.asked) < 4)) as gone, engine(load(0)) as stays:
        routes = {"/workers": [listing(gone.url, stays.url)["/workers"], listing(stays.url)["/workers"]]}
        with Scripted(routes=routes) as router:
            report = AbortClient(router.url).abort_until_idle(["a"], **FAST)

    assert [(one.target, one.status) for one in report.outcomes] == [(gone.url, Status.IDLE), (stays.url, Status.IDLE)]
    assert aborts(gone) >= 2


@pytest.mark.parametrize(
    ("trouble", "status"),
    [
        (lambda fleet: fleet.workers[0].kill(), Status.UNREACHABLE),
        (lambda fleet: fleet.workers[0].behave(Behaviour.answer(401)), Status.REFUSED),
        (lambda fleet: fleet.workers[0].behave(Behaviour.answer(404), path="/abort_request"), Status.UNSUPPORTED),
    ],
    ids=["dead", "refused", "no route"],
)
def test_a_worker_past_help_ends_the_wait_for_it(trouble: Callable[[LocalFleet], None], status: Status) -> None:
    """Dead, refusing, or without the route: told as that, long before the deadline; the others are idle."""
    with LocalFleet(workers=2) as fleet:
        fleet.workers[0].start_generation("a")
        trouble(fleet)
        report = fleet.client().abort_until_idle(["a"], **FAST)

    assert [one.status for one in report.outcomes] == [status, Status.IDLE]
    assert not report.ok
    assert report.elapsed_s < 15.0


def test_a_refused_abort_on_a_worker_without_work_is_idle() -> None:
    """What reports no work several times is idle, whatever it said to the abort."""
    with engine(load(0), abort=answer(404)) as worker:
        assert AbortClient(worker_urls=worker.url).abort_until_idle(["a"], **FAST).ok


def test_a_hung_worker_delays_only_itself() -> None:
    """The others are idle at the deadline and told so; the hung one is unknown."""
    with engine(load(1), load(0)) as well, engine(load(0), abort=hang) as hung:
        client = AbortClient(worker_urls=[hung.url, well.url], limits=Limits(read_s=60.0))
        outcomes = client.abort_until_idle(["a"], timeout_s=2.0, poll_s=0.05).outcomes

    assert [one.status for one in outcomes] == [Status.UNKNOWN, Status.IDLE]


def test_a_worker_in_passing_trouble_is_visited_again() -> None:
    """Resets and 503 in the middle cost rounds, not the outcome."""

    def reset(connection: socket.socket) -> None:
        connection.close()

    with engine(answer(503), load(1), reset, load(0), abort=[answer(503), reset, answer()]) as worker:
        (outcome,) = AbortClient(worker_urls=worker.url).abort_until_idle(["a"], **FAST).outcomes

    assert outcome.status is Status.IDLE


def test_a_router_that_goes_away_in_the_middle_leaves_its_workers_swept() -> None:
    """Workers of the first listing are swept to the end; the report is not ok, since later ones may have been missed."""
    with engine(busy_while(lambda: len(router.asked) < 2)) as worker:
        with Scripted(routes={"/workers": [listing(worker.url)["/workers"], answer(400)]}) as router:
            report = AbortClient(router.url).abort_until_idle(["a"], **FAST)

    assert [one.status for one in report.outcomes] == [Status.IDLE]
    assert not report.ok
    assert router.url in str(report.error)


def test_rids_that_begin_one_another_are_noted() -> None:
    """The engine matches by prefix: the notes name each rid that would end another one too, for every call."""
    with LocalFleet(workers=1) as fleet:
        client = fleet.client()
        for report in (
            client.abort_requests(["run_10", "x", "run_1"]),
            client.abort_until_idle(["run_10", "x", "run_1"], **FAST),
            client.teardown(rids=["run_10", "x", "run_1"], until_idle=False),
        ):
            assert [note for note in report.notes if "'run_1'" in note and "'run_10'" in note and "prefix" in note]
        assert client.abort_requests(["run_1", "run_2"]).notes == ()


@pytest.mark.parametrize(("rids", "message"), [([""], "empty"), ([None], "string"), ("abc", "list"), ([7], "string"), (7, "list")])
def test_bad_rids_are_refused_before_any_packet(rids: Any, message: str) -> None:
    """Empty, None, a number, one string: refused; an empty list is a report that there was nothing to do."""
    with LocalFleet(workers=1) as fleet:
        client = fleet.client()
        for call in (client.abort_requests, client.abort_until_idle, lambda bad: client.teardown(rids=bad)):
            with pytest.raises(ConfigurationError, match=message):
                call(rids)
        nothing = client.abort_until_idle([])
        assert (nothing.ok, "nothing to abort" in str(nothing.error)) == (False, True)
        assert fleet.router.accepted == 0


def test_rounds_are_told() -> None:
    """``on_event`` hears of each round: how many workers, how many idle, what remains, what is unknown."""
    rounds: list[RoundEvent] = []
    with engine(load(2), load(2), load(0)) as one, engine(load(0)) as two, engine(answer(404)) as three:
        urls = [one.url, two.url, three.url]
        client = AbortClient(worker_urls=urls, on_event=lambda event: isinstance(event, RoundEvent) and rounds.append(event))
        client.abort_until_idle(["a"], **FAST)

    assert [one.number for one in rounds] == list(range(1, len(rounds) + 1))
    assert {one.workers for one in rounds} == {3}
    assert (rounds[-1].idle, rounds[-1].remaining, rounds[-1].unknown) == (2, 0, 1)
    assert json.dumps([one.operation for one in rounds[:1]]) == '["abort_until_idle"]'


def test_a_router_that_fails_for_a_moment_is_asked_again() -> None:
    """A listing that fails at first ends nothing: the workers are found a moment later, and the request is stopped."""
    with LocalFleet(workers=1, agent_server=False) as fleet:
        fleet.workers[0].start_generation("rid-1")
        fleet.router.behave([Behaviour.answer(503)] * 4, path="/workers")
        report = fleet.client().abort_until_idle(["rid-1"], **FAST)
        assert report.ok, report
        assert not fleet.workers[0].running


def test_a_router_that_stays_away_is_not_waited_for_to_the_end() -> None:
    """A dead router costs some seconds, not the whole timeout, and the report says that the workers are not known."""
    with LocalFleet(workers=1, agent_server=False) as fleet:
        fleet.router.kill()
        report = fleet.client().abort_until_idle(["rid-1"], poll_s=0.05, timeout_s=600.0)
        assert not report.ok
        assert "cannot be learned" in str(report.error)
        assert report.elapsed_s >= 4.5, "it was asked again for a while"


def test_a_router_that_refuses_is_asked_once() -> None:
    """Another key is not found by asking again."""
    with LocalFleet(workers=1, agent_server=False, router_key="k") as fleet:
        report = AbortClient(fleet.router_url).abort_until_idle(["rid-1"], **FAST)
        assert "keys.router" in str(report.error)
        assert len(fleet.router.requests) == 1


def test_no_listing_is_begun_in_the_last_second() -> None:
    """A router that has only a moment left to answer is not asked, and so not called away; what it listed before stands."""
    with LocalFleet(workers=1, agent_server=False) as fleet:
        fleet.workers[0].start_generation("rid-1", ignore_first_aborts=1_000_000)
        report = fleet.client().abort_until_idle(["rid-1"], poll_s=0.05, timeout_s=2.0)
        ended = time.monotonic()
        asked = [one.at for one in fleet.router.requests]

    assert [one.status for one in report.outcomes] == [Status.BUSY]
    assert (report.error, report.notes) == (None, ())
    assert len(asked) > 1
    assert max(asked) <= ended - 0.4  # begun a second before the end or more, and read a little later
