"""Flushing an agent server: which ids, how often, what the answer proves, and what a failure leaves."""

from __future__ import annotations

import json
import socket
import threading
from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest
from scripted import Scripted, answer, closed_port, hang, json_answer

from abort_sync import AbortClient, ConfigurationError, Keys, Limits, Status, abort, teardown
from abort_sync.testing import Behaviour, LocalFleet


def flushed(instance_id: str, cancelled: Any = 0) -> bytes:
    return json_answer({"session_server_instance_id": instance_id, "cancelled": cancelled})


def ids_of(requests: Any) -> list[str]:
    return [json.loads(one.body)["session_server_instance_id"] for one in requests]


def instance(instance_id: object) -> SimpleNamespace:
    return SimpleNamespace(instance_id=instance_id)


SPELLINGS: list[tuple[Any, list[str]]] = [
    ("a", ["a"]),
    (["b", "a"], ["b", "a"]),
    (("a", "b", "a"), ["a", "b"]),
    ({"x": "b", "y": "a", "z": "b"}, ["b", "a"]),
    (OrderedDict(x="a", y=None, z=""), ["a"]),
    ({"a"}, ["a"]),
    (frozenset(["a"]), ["a"]),
    ((one for one in ["a", "b"]), ["a", "b"]),
    ([instance("a"), "b", instance("b"), instance(None), instance("")], ["a", "b"]),
    ({"x": instance("a")}, ["a"]),
    (instance("a"), ["a"]),
    (["a", None, "", "  ", "b"], ["a", "b"]),
    ({"x": "a"}.values(), ["a"]),
    (['\u00e9 "x"', "a/b?c"], ['\u00e9 "x"', "a/b?c"]),
]


@pytest.mark.parametrize(("ids", "expected"), SPELLINGS, ids=lambda value: None)
def test_each_id_is_flushed_once_and_reported_in_order(ids: Any, expected: list[str]) -> None:
    """Map, list, set, tuple, generator, one string, objects with ``instance_id``: each id once; None and blanks dropped."""
    with LocalFleet(workers=0, teardown_s=0.0) as fleet:
        report = fleet.client().flush(ids)

    assert [one.target for one in report.outcomes] == expected
    assert sorted(ids_of(fleet.agent.requests)) == sorted(expected)
    assert report.ok
    assert {(one.via, one.rid, one.cancelled) for one in report.outcomes} == {(None, None, 0)}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"session_server_instance_ids": {"x": "a", "y": "b"}, "session_server_instance_id": "c"}, ["a", "b", "c"]),
        (SimpleNamespace(session_server_instance_ids=["a"], session_server_instance_id="a"), ["a"]),
        (SimpleNamespace(session_server_instance_id="c"), ["c"]),
        (SimpleNamespace(session_server_instances=[instance("a"), instance("b")], session_server_instance_ids=None), ["a", "b"]),
        ({"session_server_instances": {"s": instance("a")}}, ["a"]),
    ],
)
def test_the_drop_in_reads_every_spelling_of_the_ids(args: Any, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The plural, the singular and the instances are all read; a driver with several ids gets as many flushes."""
    with LocalFleet(workers=0, agent_secret="s", teardown_s=0.0) as fleet:
        monkeypatch.setenv("AGENT_SERVER_URL", str(fleet.agent_url))
        monkeypatch.setenv("HARBOR_ADMIN_SECRET", "s")
        for one in expected:
            fleet.agent.start_runs(one, 2)
        report = abort(args)
        assert not fleet.agent.running

    assert (report.operation, report.ok) == ("abort", True)
    assert [(one.target, one.cancelled) for one in report.outcomes] == [(one, 2) for one in expected]


@pytest.mark.parametrize("ids", [None, "", " ", [], {}, (), [None, ""], {"x": None}, iter(())])
def test_no_ids_is_no_success(ids: Any) -> None:
    """Nothing to flush is said, is not ok, and sends nothing."""
    with LocalFleet(workers=0) as fleet:
        report = fleet.client().flush(ids)
        assert abort({"session_server_instance_ids": ids}).error is not None

    assert (report.ok, report.outcomes) == (False, ())
    assert "nothing to flush" in str(report.error)
    assert fleet.agent.accepted == 0


@pytest.mark.parametrize("ids", [7, b"a", [7], ["a", b"b"], [["a"]], object()])
def test_an_id_that_is_no_string_is_refused_before_any_packet(ids: Any) -> None:
    """A wrong type raises, and the good ids beside it are not flushed either."""
    with LocalFleet(workers=0) as fleet:
        with pytest.raises(ConfigurationError):
            fleet.client().flush(ids)
    assert fleet.agent.accepted == 0


def test_a_client_without_an_agent_server_says_so() -> None:
    """Flushing needs a URL; the message names the setting and the variable."""
    with pytest.raises(ConfigurationError, match=r"agent_server_url.*AGENT_SERVER_URL"):
        AbortClient("http://h:1").flush(["a"])


ANSWERS: list[tuple[bytes, Status, int | None]] = [
    (flushed("a", 3), Status.ACCEPTED, 3),
    (flushed("a", 0), Status.ACCEPTED, 0),
    (json_answer({"session_server_instance_id": "a"}), Status.ACCEPTED, 0),
    (flushed("b", 3), Status.UNKNOWN, None),
    (flushed("a", -1), Status.UNKNOWN, None),
    (flushed("a", True), Status.UNKNOWN, None),
    (flushed("a", "3"), Status.UNKNOWN, None),
    (flushed("a", None), Status.UNKNOWN, None),
    (json_answer({"cancelled": 3}), Status.UNKNOWN, None),
    (json_answer(["a", 3]), Status.UNKNOWN, None),
    (answer(), Status.UNKNOWN, None),
    (answer(200, "ok"), Status.UNKNOWN, None),
    (answer(200, "<html>", "content-type: text/html"), Status.UNKNOWN, None),
    (json_answer({"session_server_instance_id": "a", "cancelled": 3}, 202), Status.UNKNOWN, None),
    (answer(401), Status.REFUSED, None),
    (answer(422, '{"detail": "bad"}'), Status.REJECTED, None),
    (answer(404), Status.UNSUPPORTED, None),
    (answer(405), Status.UNSUPPORTED, None),
]


@pytest.mark.parametrize(("act", "status", "cancelled"), ANSWERS)
def test_only_the_same_id_with_a_count_is_a_yes(act: bytes, status: Status, cancelled: int | None) -> None:
    """200 counts only with JSON about this very instance id; what else comes is unknown, refused, rejected or unsupported."""
    with Scripted(act) as agent:
        (outcome,) = AbortClient(agent_server_url=agent.url).flush("a").outcomes

    assert (outcome.status, outcome.cancelled, len(outcome.attempts)) == (status, cancelled, 1)
    assert agent.targets == ["POST /flush"]
    assert (outcome.error is None) == (status is Status.ACCEPTED)


def test_a_flush_that_outlives_the_deadline_is_delivered_and_still_tearing_down() -> None:
    """No second flush cuts into the teardown: one request, UNKNOWN, and the words say what is known."""
    with Scripted(hang) as agent:
        (outcome,) = AbortClient(agent_server_url=agent.url, limits=Limits(read_s=0.2)).flush("a", timeout_s=1.5).outcomes

    assert (outcome.status, len(agent.asked)) == (Status.UNKNOWN, 1)
    assert "delivered, still tearing down" in str(outcome.error)


def test_a_flush_that_never_arrived_is_not_called_delivered() -> None:
    """Nobody listens, or nobody accepts: UNREACHABLE, without a word of delivery."""
    (outcome,) = AbortClient(agent_server_url=f"127.0.0.1:{closed_port()}").flush("a", timeout_s=2.0).outcomes

    assert outcome.status is Status.UNREACHABLE
    assert "delivered" not in str(outcome.error)


def test_all_ids_are_flushed_at_once_with_a_cap() -> None:
    """The flushes are under way together, at most ``limits.threads`` of them."""
    together, lock = [0, 0], threading.Lock()
    arrived = threading.Barrier(4)

    def wait(connection: socket.socket) -> None:
        with lock:
            together[0] += 1
            together[1] = max(together)
        arrived.wait(30.0)  # breaks unless four are here at once
        with lock:
            together[0] -= 1
        connection.sendall(answer(404))

    with Scripted(wait) as agent:
        client = AbortClient(agent_server_url=agent.url, limits=Limits(threads=4), flush_timeout_s=60.0)
        report = client.flush([f"i-{n}" for n in range(12)])

    assert [one.status for one in report.outcomes] == [Status.UNSUPPORTED] * 12
    assert together == [0, 4]


def test_one_bad_id_leaves_the_others_flushed() -> None:
    """The report is partial: the bad one is told, the others are cancelled."""
    with LocalFleet(workers=0, teardown_s=0.0) as fleet:
        fleet.agent.start_runs("good", 2)
        fleet.agent.behave([Behaviour.answer(422)])
        report = fleet.client(limits=Limits(threads=1)).flush(["bad", "good"])

    assert [(one.status, one.cancelled) for one in report.outcomes] == [(Status.REJECTED, None), (Status.ACCEPTED, 2)]
    assert not report.ok


def test_a_missing_flush_route_is_unsupported() -> None:
    """An agent server without ``/flush``: said so, once."""
    with Scripted(answer(404)) as agent:
        (outcome,) = AbortClient(agent_server_url=f"{agent.url}/api/").flush("a").outcomes

    assert (outcome.status, agent.targets) == (Status.UNSUPPORTED, ["POST /api/flush"])
    assert "no such route" in str(outcome.error)


@pytest.mark.parametrize(("first", "second"), [("right", "wrong"), (None, "right"), ("", "right"), (" ", "right")])
def test_the_agent_server_is_read_from_the_environment_when_called(first: str | None, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``AGENT_SERVER_URL``, then ``SWE_AGENT_URL``; an argument goes before both."""
    with Scripted(flushed("a")) as right, Scripted(flushed("a")) as wrong:
        urls = {"right": right.url, "wrong": wrong.url}
        for name, value in (("AGENT_SERVER_URL", first), ("SWE_AGENT_URL", second)):
            if value is not None:
                monkeypatch.setenv(name, urls.get(value, value))
        assert abort({"session_server_instance_id": "a"}).ok
        assert AbortClient.from_env().flush("a").ok
        assert len(right.asked) == 2
        AbortClient.from_env(agent_server_url=wrong.url).flush("a")
        assert (len(right.asked), len(wrong.asked)) == (2, 1)


def test_the_drop_ins_without_a_url_report_it() -> None:
    """No URL in the environment: a report with an error that names the variable; nothing is raised."""
    for report in (abort({"session_server_instance_id": "a"}), teardown({"session_server_instance_id": "a"})):
        assert (report.ok, report.outcomes) == (False, ())
        assert "AGENT_SERVER_URL" in str(report.error)


def test_trials_that_waited_for_a_slot_are_flushed_again_until_quiet() -> None:
    """A waiting trial starts after the flush: ``until_quiet`` flushes until two in a row found nothing, and counts them all."""
    with LocalFleet(workers=0, teardown_s=0.0) as fleet:
        fleet.agent.start_runs("a", 3)
        fleet.agent.waiting("a", 2)
        once = fleet.client().flush("a")
        assert (once.ok, once.outcomes[0].cancelled, fleet.agent.running) == (True, 3, {"a": 2})
        quiet = fleet.client().flush("a", until_quiet=True)
        assert fleet.agent.running == {}

    assert (quiet.ok, quiet.outcomes[0].cancelled) == (True, 2)
    assert len(fleet.agent.requests) == 4
    gaps = [later.at - earlier.at for earlier, later in zip(fleet.agent.requests[1:], fleet.agent.requests[2:])]
    assert min(gaps) >= 0.45, "the flushes are spaced"


def test_trials_that_keep_starting_are_busy_at_the_deadline() -> None:
    """Where every flush still cancels some, the outcome is BUSY with the total, and nothing is sent after the deadline."""
    with Scripted(flushed("a", 1)) as agent:
        (outcome,) = AbortClient(agent_server_url=agent.url).flush("a", until_quiet=True, timeout_s=2.0).outcomes
        asked = len(agent.asked)

    assert (outcome.status, outcome.cancelled, len(agent.asked)) == (Status.BUSY, asked, asked)
    assert 1 <= asked <= 4
    assert "trials kept starting" in str(outcome.error)


def test_until_quiet_ends_where_a_flush_fails() -> None:
    """A flush that is refused in the middle is not repeated; what was cancelled before is still told."""
    with Scripted(flushed("a", 5), answer(401)) as agent:
        (outcome,) = AbortClient(agent_server_url=agent.url, keys=Keys(agent="k")).flush("a", until_quiet=True).outcomes

    assert (outcome.status, outcome.cancelled, len(agent.asked)) == (Status.REFUSED, 5, 2)


def test_the_next_flush_waits_for_the_teardown_of_the_one_before() -> None:
    """Until quiet, at most one flush of an id is under way: a second one would cut into the first one's teardown."""
    overlap, lock, count = [], threading.Lock(), [0]

    def serve(connection: socket.socket) -> None:
        overlap.append(not lock.acquire(blocking=False))
        threading.Event().wait(0.2)
        count[0] += 1
        if not overlap[-1]:
            lock.release()
        connection.sendall(flushed("a", 2 if count[0] < 2 else 0))

    with Scripted(serve) as agent:
        (outcome,) = AbortClient(agent_server_url=agent.url).flush("a", until_quiet=True).outcomes

    assert (outcome.ok, outcome.cancelled, overlap) == (True, 2, [False] * 3)
