"""What is tried again and how often, what never is, and how long is waited before."""

from __future__ import annotations

import email.utils
import json
import socket
import time
from typing import Any

import pytest
import tenacity
from scripted import Act, Scripted, answer, closed_port, hang, json_answer, listing, reset

from abort_sync import AbortClient, Limits, Outcome, Status
from abort_sync import _policy as policy

CUT_HEAD = b"HTTP/1.1 200 OK\r\ncontent-le"
CUT_BODY = answer(200, "", length=5)
HTML = answer(200, "<html>log in</html>", "content-type: text/html")
ONCE = (400, 401, 402, 403, 404, 405, 406, 409, 410, 411, 413, 418, 422, 451, 501, 201, 202, 204, 206, 207, 301, 302, 303, 307, 308)
THRICE = (408, 429, 500, 502, 503, 504, 507, 599)


WAIT = policy._WAIT


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a moment between attempts, where a test does not say otherwise."""
    monkeypatch.setattr(policy, "_WAIT", tenacity.wait_fixed(0.02))


def expected_status(code: int) -> Status:
    """What one kind of answer to an abort proves, by the words of the statuses."""
    if code in (401, 403):
        return Status.REFUSED
    if code in (404, 405, 501):
        return Status.UNSUPPORTED
    return Status.UNKNOWN if 200 <= code < 300 else Status.REJECTED


def aborted(routes: dict[str, Any], **settings: Any) -> dict[str, tuple[Outcome, int]]:
    """Abort at one worker a route, all in one call; return each outcome and how many requests it took."""
    with Scripted(routes={f"/{name}/abort_request": acts for name, acts in routes.items()}) as server:
        client = AbortClient(worker_urls=[f"{server.url}/{name}" for name in routes], timeout_s=60.0, **settings)
        outcomes = client.abort_request("rid-1").outcomes
    asked = [one.target.split("/")[1] for one in server.asked]
    return {name: (outcome, asked.count(name)) for name, outcome in zip(routes, outcomes)}


def test_each_answer_has_its_number_of_attempts() -> None:
    """4xx once but 408 and 429, 5xx but 501 three times, other 2xx and redirects once: that many, not one more."""
    got = aborted({str(code): answer(code) for code in (*ONCE, *THRICE)})

    assert {name: (outcome.status, len(outcome.attempts), outcome.http_status, asked) for name, (outcome, asked) in got.items()} == {
        str(code): (expected_status(code), count, code, count) for codes, count in ((ONCE, 1), (THRICE, 3)) for code in codes
    }


def test_no_answer_is_tried_three_times() -> None:
    """Reset, cut off in the head, cut off in the body, timed out, refused: three attempts."""
    got = aborted({"reset": reset, "head": CUT_HEAD, "body": CUT_BODY, "silent": b"", "hang": hang}, limits=Limits(read_s=0.7))
    refused = AbortClient(worker_urls=f"127.0.0.1:{closed_port()}", timeout_s=60.0).abort_request("rid-1").outcomes[0]

    assert {(outcome.status, len(outcome.attempts), outcome.http_status, asked) for outcome, asked in got.values()} == {
        (Status.UNKNOWN, 3, None, 3)
    }
    assert (refused.status, len(refused.attempts)) == (Status.UNREACHABLE, 3)


def test_a_yes_ends_the_attempts() -> None:
    """After a 200 nothing is sent again, and one accepted attempt is enough whatever came before."""
    got = aborted(
        {
            "first": [answer(), answer(500)],
            "second": [answer(503), answer(), answer(500)],
            "third": [CUT_BODY, reset, answer()],
            "portal": [HTML, answer()],
        }
    )

    assert {name: (outcome.status, [one.http_status for one in outcome.attempts], asked) for name, (outcome, asked) in got.items()} == {
        "first": (Status.ACCEPTED, [200], 1),
        "second": (Status.ACCEPTED, [503, 200], 2),
        "third": (Status.ACCEPTED, [None, None, 200], 3),
        "portal": (Status.UNKNOWN, [200], 1),
    }
    assert all(outcome.error is None for outcome, _ in got.values() if outcome.ok)


def test_one_that_may_have_arrived_leaves_it_unknown() -> None:
    """After an attempt that may have been delivered, a later no is no proof; after plain noes the last one stands."""
    got = aborted({"lost": [reset, answer(503), answer(400)], "noes": [answer(503), answer(429), answer(404)]})

    lost, noes = got["lost"][0], got["noes"][0]
    assert (lost.status, lost.http_status, len(lost.attempts)) == (Status.UNKNOWN, 400, 3)
    assert "closed by the server" in str(lost.error)
    assert (noes.status, noes.http_status, len(noes.attempts)) == (Status.UNSUPPORTED, 404, 3)


def test_a_server_that_never_reads_may_have_got_it_all_the_same() -> None:
    """A connection that is reset with the request unread counts as one that may have carried it."""

    def leave_unread(connection: socket.socket) -> bool:
        connection.recv(1, socket.MSG_PEEK)
        reset(connection)
        return True

    with Scripted(on_accept=leave_unread) as server:
        (outcome,) = AbortClient(worker_urls=server.url, timeout_s=60.0).abort_request("rid-1").outcomes

    assert (outcome.status, len(outcome.attempts), server.accepted) == (Status.UNKNOWN, 3, 3)


@pytest.mark.parametrize("attempts", [1, 2])
def test_the_number_of_attempts_can_be_set(attempts: int) -> None:
    """``Limits.attempts`` counts the first one in, for aborts, flushes and listings alike."""
    with Scripted(answer(503)) as server:
        limits = Limits(attempts=attempts)
        client = AbortClient(worker_urls=server.url, agent_server_url=server.url, limits=limits, timeout_s=60.0)
        client.abort_request("rid-1")
        client.flush("i-1")
        AbortClient(server.url, limits=limits, timeout_s=60.0).abort_request("rid-1")

    targets = ["POST /abort_request", "POST /flush", "GET /workers"]
    assert server.targets == [target for target in targets for _ in range(attempts)]


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_a_listing_that_fails_with_500_is_asked_for_in_both_dialects(attempts: int) -> None:
    """500 on ``/workers``: ``/list_workers`` at once; both together are one attempt, and it is never taken for a server."""
    with Scripted(answer(500), routes={"/list_workers": answer(404)}) as server:
        report = AbortClient(server.url, limits=Limits(attempts=attempts), timeout_s=60.0).abort_request("rid-1")

    assert server.targets == ["GET /workers", "GET /list_workers"] * attempts
    assert (report.ok, report.outcomes) == (False, ())


def test_a_listing_is_tried_again_like_anything_else() -> None:
    """503, reset and cut off: the next attempt brings the workers; a 4xx is not tried again."""
    with Scripted(answer()) as worker:
        good = listing(worker.url)["/workers"]
        for acts in ([answer(503), good], [reset, CUT_HEAD, good], [json_answer({}, 429), good]):
            with Scripted(routes={"/workers": acts}) as router:
                report = AbortClient(router.url, timeout_s=60.0).abort_request("rid-1")
            assert report.ok, str(report)
            assert len(router.asked) > 1
        with Scripted(answer(400), good) as router:
            assert not AbortClient(router.url, timeout_s=60.0).abort_request("rid-1").ok
        assert router.targets == ["GET /workers"]


FLUSHED = {
    "429": ([answer(429)], 3, Status.REJECTED),
    "502": ([answer(502)], 3, Status.REJECTED),
    "503": ([answer(503)], 3, Status.REJECTED),
    "500": ([answer(500)], 1, Status.REJECTED),
    "504": ([answer(504)], 1, Status.REJECTED),
    "408": ([answer(408)], 1, Status.REJECTED),
    "401": ([answer(401)], 1, Status.REFUSED),
    "404": ([answer(404)], 1, Status.UNSUPPORTED),
    "422": ([answer(422)], 1, Status.REJECTED),
    "307": ([answer(307, "", "location: /flush/")], 1, Status.REJECTED),
    "reset": ([reset], 1, Status.UNKNOWN),
    "silent": ([b""], 1, Status.UNKNOWN),
    "cut head": ([CUT_HEAD], 1, Status.UNKNOWN),
    "cut body": ([CUT_BODY], 1, Status.UNKNOWN),
    "empty": ([answer()], 1, Status.UNKNOWN),
    "then reset": ([answer(503), reset, answer(503)], 2, Status.UNKNOWN),
}


@pytest.mark.parametrize("name", FLUSHED)
def test_a_flush_is_repeated_only_if_it_surely_did_not_arrive(name: str) -> None:
    """429, 502 and 503 are tried again; whatever may have begun a teardown never is."""
    acts, count, status = FLUSHED[name]
    with Scripted(*acts) as agent:
        (outcome,) = AbortClient(agent_server_url=agent.url, flush_timeout_s=60.0).flush("i-1").outcomes

    assert (outcome.status, len(outcome.attempts), agent.targets) == (status, count, ["POST /flush"] * count)


def test_a_flush_that_was_refused_is_tried_again() -> None:
    """Nobody listened: nothing arrived, and three attempts are made."""
    (outcome,) = AbortClient(agent_server_url=f"127.0.0.1:{closed_port()}", flush_timeout_s=60.0).flush("i-1").outcomes

    assert (outcome.status, len(outcome.attempts)) == (Status.UNREACHABLE, 3)


def test_a_flush_is_not_bounded_by_the_limit_of_an_attempt() -> None:
    """``read_s`` does not apply to a flush: a teardown takes its time."""

    def later(connection: socket.socket) -> None:
        time.sleep(0.6)
        connection.sendall(json_answer({"session_server_instance_id": "i-1", "cancelled": 2}))

    with Scripted(later) as agent:
        (outcome,) = AbortClient(agent_server_url=agent.url, limits=Limits(read_s=0.1), flush_timeout_s=60.0).flush("i-1").outcomes

    assert (outcome.status, outcome.cancelled, len(agent.asked)) == (Status.ACCEPTED, 2, 1)


def test_rids_go_to_a_worker_in_order_each_once() -> None:
    """All rids reach each worker in the order given, one request each; a no to one does not keep the next from being sent."""
    rids = [f"r{n}" for n in range(50)]
    with Scripted(*[answer()] * 10, answer(400), answer()) as one, Scripted(answer()) as two:
        report = AbortClient(worker_urls=[one.url, two.url], timeout_s=60.0).abort_requests(rids)

    for server in (one, two):
        assert [json.loads(asked.body) for asked in server.asked] == [{"rid": rid, "abort_all": False} for rid in rids]
    assert [(one.rid, one.target) for one in report.outcomes] == [(rid, url.url) for rid in rids for url in (one, two)]
    assert [(one.rid, one.status) for one in report.failures] == [("r10", Status.REJECTED)]


@pytest.mark.parametrize("act", [reset, hang, CUT_BODY], ids=["reset", "hang", "cut"])
def test_a_worker_that_gives_no_answer_gets_no_more_rids(act: Act) -> None:
    """What a worker is not sent after that is NOT_SENT, with the cause; the other workers have theirs."""
    with Scripted(answer(), act) as ill, Scripted(answer()) as well:
        client = AbortClient(worker_urls=[ill.url, well.url], limits=Limits(read_s=1.0, attempts=2), timeout_s=60.0)
        outcomes = client.abort_requests(["a", "b", "c", "d"]).outcomes

    assert [one.status for one in outcomes[::2]] == [Status.ACCEPTED, Status.UNKNOWN, Status.NOT_SENT, Status.NOT_SENT]
    assert [one.status for one in outcomes[1::2]] == [Status.ACCEPTED] * 4
    assert "the abort before it at this worker failed" in str(outcomes[4].error)
    assert (len(ill.asked), len(well.asked)) == (3, 4)


def in_seconds(seconds: float) -> str:
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


@pytest.mark.parametrize(
    "text",
    [
        *("-5", "soon", "", "1e3", "0x10", "\xb2", "99999999999999999999", "9" * 60, "9" * 400, "nan", "inf", "3.5", "1, 2"),
        *("Fri, 31 Dec 2099 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -9999", "Fri, 99 Foo 2026 99:99:99 GMT"),
        *("Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 0001 00:00:00 +2359"),
    ],
)
def test_a_retry_after_that_cannot_be_obeyed_is_ignored(text: str) -> None:
    """Huge, negative, a word, a date in 2099: the usual wait, the usual attempts, and no overflow."""
    got = aborted({"w": [answer(503, "", f"retry-after: {text}"), answer()]})

    outcome, asked = got["w"]
    assert (outcome.status, asked) == (Status.ACCEPTED, 2)
    assert outcome.elapsed_s < 20.0


def test_a_retry_after_is_obeyed() -> None:
    """Seconds and dates that fit into what is left are waited for."""
    got = aborted(
        {
            "seconds": [answer(429, "", "retry-after:  1 "), answer()],
            "date": [answer(503, "", f"Retry-After: {in_seconds(2.0)}"), answer()],
            "none": [answer(503), answer()],
        }
    )

    assert all(outcome.ok and asked == 2 for outcome, asked in got.values())
    assert 1.0 <= got["seconds"][0].elapsed_s < 20.0
    assert 0.9 < got["date"][0].elapsed_s < 20.0


def test_a_retry_after_waits_for_its_own_server_only() -> None:
    """One worker that asks for a wait takes no thread from the others, though there is only one."""
    routes = {"/ill/abort_request": [answer(503, "", "retry-after: 1"), answer()]}
    with Scripted(answer(), routes=routes) as server:
        urls = [f"{server.url}/{name}" for name in ("ill", "a", "b", "c")]
        report = AbortClient(worker_urls=urls, limits=Limits(threads=1), timeout_s=60.0).abort_request("rid-1")

    assert report.ok
    assert [target.split("/")[1] for target in server.targets] == ["ill", "a", "b", "c", "ill"]


def test_a_wait_that_would_cross_the_deadline_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the next attempt could only come too late, the call ends at once with what it has."""
    monkeypatch.setattr(policy, "_WAIT", tenacity.wait_fixed(100.0))
    with Scripted(answer(503, "", "retry-after: 100")) as server:
        report = AbortClient(worker_urls=server.url, timeout_s=50.0).abort_request("rid-1")

    assert (len(server.asked), [one.status for one in report.outcomes]) == (1, [Status.REJECTED])
    assert report.elapsed_s < 25.0


def test_waits_grow_and_differ() -> None:
    """The usual wait is about 0.1 s, then about 0.2 s, with some luck in it, and never long."""
    waits = [[WAIT(state(number)) for _ in range(50)] for number in (1, 2)]

    assert 0.1 <= min(waits[0]) <= max(waits[0]) <= 0.2
    assert 0.2 <= min(waits[1]) <= max(waits[1]) <= 0.3
    assert len(set(waits[0])) > 10


def state(number: int) -> Any:
    made = tenacity.RetryCallState(None, None, (), {})  # type: ignore[arg-type]  # only its attempts are read
    made.attempt_number = number
    return made
