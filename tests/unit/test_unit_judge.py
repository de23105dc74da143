"""What an answer proves: a table from answers to statuses, and what several answers prove together."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abort_sync import Status
from abort_sync._answer import Answer, NotJson, Order, read_json
from abort_sync._judge import cancelled, explain, judge, judge_flush, together

STABLE = settings(derandomize=True, deadline=None, database=None, max_examples=60)
HTML = (("content-type", "text/html; charset=utf-8"),)
LOCATION = (("location", "http://other:1/abort_request"),)
KEY = "keys.worker (ABORT_SYNC_WORKER_KEY)"


def flushed(instance_id: object, count: object = 1) -> bytes:
    return json.dumps({"session_server_instance_id": instance_id, "cancelled": count}).encode()


ANSWERS = [
    # answer to an abort, what it proves, what the explanation holds
    (Answer(200), Status.ACCEPTED, None),
    (Answer(200, b"{}"), Status.ACCEPTED, None),
    (Answer(200, b"OK", (("content-type", "text/plain"),)), Status.ACCEPTED, None),
    (Answer(200, b"", HTML), Status.UNKNOWN, "web page"),
    (Answer(200, b"\n <!DOCTYPE HTML><html>login</html>"), Status.UNKNOWN, "web page"),
    (Answer(200, b"<HTML><body>"), Status.UNKNOWN, "web page"),
    (Answer(201, b"made"), Status.UNKNOWN, "HTTP 201: no clear yes, the server said: made"),
    (Answer(202), Status.UNKNOWN, "HTTP 202: no clear yes"),
    (Answer(206), Status.UNKNOWN, "HTTP 206"),
    (Answer(207, b'{"failed":[1]}'), Status.UNKNOWN, "HTTP 207"),
    (Answer(301, b"", LOCATION), Status.REJECTED, "redirected to http://other:1/abort_request, not followed"),
    (Answer(302, b"", HTML), Status.REJECTED, "redirected to nowhere, not followed"),
    (Answer(307, b"", LOCATION), Status.REJECTED, "not followed"),
    (Answer(308, b"", LOCATION), Status.REJECTED, "not followed"),
    (Answer(400, b"bad rid"), Status.REJECTED, "HTTP 400, the server said: bad rid"),
    (Answer(401, b'{"error":"Unauthorized"}'), Status.REFUSED, f"HTTP 401: the server wants another key, set {KEY}"),
    (Answer(403), Status.REFUSED, f"HTTP 403: the server wants another key, set {KEY}"),
    (Answer(404), Status.UNSUPPORTED, "HTTP 404: this server has no such route"),
    (Answer(405), Status.UNSUPPORTED, "no such route"),
    (Answer(408), Status.REJECTED, "HTTP 408"),
    (Answer(422), Status.REJECTED, "HTTP 422"),
    (Answer(429), Status.REJECTED, "HTTP 429"),
    (Answer(500, b"x" * 5000), Status.REJECTED, "HTTP 500, the server said: xxx"),
    (Answer(501), Status.UNSUPPORTED, "HTTP 501"),
    (Answer(502, b"<html>bad gateway</html>", HTML), Status.REJECTED, "web page"),
    (Answer(503), Status.REJECTED, "HTTP 503"),
    (Answer(599), Status.REJECTED, "HTTP 599"),
    (Answer(error="connection refused while connecting", is_sent=False), Status.UNREACHABLE, "connection refused while connecting"),
    (Answer(error="timed out while waiting for the answer"), Status.UNKNOWN, "timed out"),
    (Answer(200, b"part", error="cut off at the deadline while reading"), Status.UNKNOWN, "cut off"),
    (Answer(401, error="connection closed by the server"), Status.UNKNOWN, "closed"),
]


@pytest.mark.parametrize(("answer", "status", "text"), ANSWERS)
def test_what_an_answer_to_an_abort_proves(answer: Answer, status: Status, text: str | None) -> None:
    """Each answer proves one status, and a status that is not ok has a sentence for a person, of bounded length."""
    assert judge(answer) is status
    said = explain(answer, status, KEY)
    if text is None:
        assert said is None
    else:
        assert said is not None
        assert text in said
        assert len(said) < 400


@pytest.mark.parametrize(("answer", "status", "text"), ANSWERS)
def test_a_flush_is_believed_no_sooner_than_an_abort(answer: Answer, status: Status, text: str | None) -> None:
    """None of those answers names the instance id: to a flush 200 is then UNKNOWN, and all others prove what they prove to an abort."""
    assert judge_flush(answer, "id-1") is (Status.UNKNOWN if status is Status.ACCEPTED else status)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (flushed("id-1", 3), 3),
        (flushed("id-1", 0), 0),
        (b'{"session_server_instance_id": "id-1"}', 0),
        (flushed("id-2"), None),
        (flushed(None), None),
        (flushed("id-1", -1), None),
        (flushed("id-1", True), None),
        (flushed("id-1", "3"), None),
        (flushed("id-1", 1.5), None),
        (flushed("id-1", None), None),
        (b"", None),
        (b"[]", None),
        (b"null", None),
        (b'"id-1"', None),
        (b"\xff", None),
        (b'{"session_server_instance_id": "id-1", "cancelled": 3', None),
        (b"[" * 100_000, None),
    ],
    ids=lambda one: repr(one)[:60],
)
def test_a_flush_counts_only_for_its_own_instance_id(body: bytes, count: int | None) -> None:
    """200 to a flush counts only as JSON about the same instance id, with a count that can be one."""
    answer = Answer(200, body)
    assert cancelled(answer, "id-1") == count
    assert judge_flush(answer, "id-1") is (Status.UNKNOWN if count is None else Status.ACCEPTED)


@pytest.mark.parametrize(
    ("body", "value"),
    [(b"{}", {}), (b"null", None), (b' [1, "\xc3\xa4"]', [1, "ä"]), (b"18446744073709551615", 18446744073709551615)],
)
def test_json_is_read(body: bytes, value: object) -> None:
    """JSON in UTF-8 is read as it is."""
    assert read_json(body) == value


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff{}", b"[" * 200_000, b"9" * 21, b"9" * 5_000_000, b"NaN,"], ids=lambda body: repr(body[:5])
)
def test_what_is_no_json_worth_reading_raises_one_error(body: bytes) -> None:
    """Cut, deep, huge or undecodable text is NotJson, whose text does not repeat it."""
    with pytest.raises(NotJson) as caught:
        read_json(body)
    assert len(str(caught.value)) < 80


def test_an_order_shows_no_secret() -> None:
    """The repr of an order holds neither the key nor credentials in the URL."""
    assert "s3cret" not in repr(Order("POST", "http://u:s3cret@h:1", "s3cret", b"s3cret"))


SENT = [Status.ACCEPTED, Status.UNKNOWN, Status.REFUSED, Status.REJECTED, Status.UNSUPPORTED]
PROVEN = st.lists(st.sampled_from([*SENT, Status.UNREACHABLE]), max_size=5)


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([], Status.NOT_SENT),
        ([Status.UNREACHABLE, Status.UNREACHABLE], Status.UNREACHABLE),
        ([Status.REJECTED, Status.ACCEPTED], Status.ACCEPTED),
        ([Status.UNKNOWN, Status.UNREACHABLE], Status.UNKNOWN),
        ([Status.UNKNOWN, Status.REJECTED], Status.UNKNOWN),
        ([Status.REJECTED, Status.UNREACHABLE], Status.REJECTED),
        ([Status.REJECTED, Status.REFUSED], Status.REFUSED),
        ([Status.UNREACHABLE, Status.UNSUPPORTED], Status.UNSUPPORTED),
    ],
)
def test_together_by_example(statuses: Sequence[Status], status: Status) -> None:
    """One yes is enough; else what may have arrived leaves it unknown; else the last answer stands."""
    assert together(statuses) is status


@STABLE
@given(PROVEN)
def test_together_is_the_strongest_true_claim(statuses: list[Status]) -> None:
    """The claim about several attempts is one of theirs, and says neither more nor less than they allow."""
    status = together(statuses)
    assert status in statuses or (not statuses and status is Status.NOT_SENT)
    assert (status is Status.ACCEPTED) == (Status.ACCEPTED in statuses)
    assert (status is Status.UNREACHABLE) == (bool(statuses) and set(statuses) == {Status.UNREACHABLE})
    if Status.UNKNOWN in statuses:  # a "no" to another attempt does not undo one that may have been delivered
        assert status in (Status.ACCEPTED, Status.UNKNOWN)


@STABLE
@given(PROVEN, PROVEN)
def test_together_can_be_asked_at_any_moment(earlier: list[Status], later: list[Status]) -> None:
    """What earlier attempts came to may stand for them: later ones join it with the same result."""
    first = [together(earlier)] if earlier else []
    assert together([*first, *later]) is together([*earlier, *later])
