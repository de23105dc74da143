"""What is tried again, and how long is waited before."""

from __future__ import annotations

import email.utils
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abort_sync._answer import Answer
from abort_sync._policy import Policy, may_repeat_abort, may_repeat_flush, retry_after

STABLE = settings(derandomize=True, deadline=None, database=None, max_examples=60)
UNSENT = Answer(error="connection refused", is_sent=False)
LOST = Answer(error="timed out")
CUT = Answer(200, error="cut off")
BUSY = Answer(503)
LATER = (
    st.text("0123456789 GMT,:-+.aé漢²٣\n", max_size=70)
    | st.integers(-(10**30), 10**30).map(str)
    | st.floats().map(str)
    | st.datetimes().map(lambda at: at.strftime("%a, %d %b %Y %H:%M:%S GMT"))
)


@pytest.mark.parametrize(
    ("answers", "abort", "flush"),
    [
        ([UNSENT], True, True),
        ([LOST, CUT], True, False),
        ([Answer(429), Answer(502), Answer(503)], True, True),
        ([Answer(408), Answer(500), Answer(504), Answer(599)], True, False),
        ([Answer(200), Answer(204), Answer(301), Answer(307)], False, False),
        ([Answer(code) for code in (400, 401, 403, 404, 405, 409, 422, 499, 501)], False, False),
    ],
)
def test_what_is_worth_another_attempt(answers: list[Answer], abort: bool, flush: bool) -> None:
    """E2, C3: an abort is repeated when it may not have been taken, a flush only when it surely did not arrive."""
    assert {may_repeat_abort(one) for one in answers} == {abort}
    assert {may_repeat_flush(one) for one in answers} == {flush}


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_attempts_are_counted_with_the_first(attempts: int) -> None:
    """`attempts` counts all of them, the first included."""
    policy = Policy(attempts, may_repeat_abort)
    pauses = [policy.pause(BUSY, number, 60.0) for number in range(1, 5)]
    assert [pause is not None for pause in pauses] == [number < attempts for number in range(1, 5)]


def test_an_answer_that_is_final_ends_the_attempts() -> None:
    """After a yes or a clear no there is no wait and no other attempt."""
    policy = Policy(3, may_repeat_abort)
    assert [policy.pause(Answer(code), 1, 60.0) for code in (200, 401, 404, 422)] == [None] * 4


def test_waits_grow_and_differ() -> None:
    """The wait grows with the attempts and has jitter, so that a fleet of clients does not return at once."""
    policy = Policy(3, may_repeat_abort)
    first = {policy.pause(LOST, 1, 60.0) for _ in range(20)}
    second = {policy.pause(LOST, 2, 60.0) for _ in range(20)}
    assert len(first) > 10
    assert all(pause is not None and 0.1 <= pause <= 0.2 for pause in first)
    assert all(pause is not None and 0.2 <= pause <= 0.3 for pause in second)


@STABLE
@given(
    st.sampled_from([UNSENT, LOST, CUT, BUSY, Answer(200), Answer(429)]),
    st.none() | LATER,
    st.integers(1, 3),
    st.floats(0, 100),
    st.integers(1, 3),
)
def test_no_wait_crosses_the_deadline(answer: Answer, later: str | None, number: int, left: float, attempts: int) -> None:
    """D3, D4: whatever the server asks for, a wait ends before the deadline, or is not begun."""
    headers = (("retry-after", later),) if later is not None else ()
    given = Answer(answer.status, headers=headers, error=answer.error, is_sent=answer.is_sent)
    pause = Policy(attempts, may_repeat_abort).pause(given, number, left)
    assert pause is None or 0 <= pause < left


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("3", 3.0),
        (" 7 ", 7.0),
        ("007", 7.0),
        ("9" * 64, float("9" * 64)),
        ("9" * 65, None),
        ("-1", None),
        ("+5", None),
        ("1.5", None),
        ("1e3", None),
        ("nan", None),
        ("inf", None),
        ("٣", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("Wed, 99 Foo 2099 00:00:00 GMT", None),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Thu, 01 Jan 0001 00:00:00 GMT", 0.0),
    ],
    ids=lambda one: repr(one)[:40],
)
def test_what_retry_after_asks_for(text: str | None, seconds: float | None) -> None:
    """D4: whole seconds and dates are read, a date that has passed asks for no wait, and all else asks for nothing."""
    assert retry_after(text) == seconds


def test_a_date_asks_for_the_time_until_then() -> None:
    """A date in the near future is so many seconds away, one in 2099 many."""
    assert 50 < (retry_after(email.utils.formatdate(time.time() + 60, usegmt=True)) or 0) <= 60
    assert (retry_after("Thu, 31 Dec 2099 23:59:59 GMT") or 0) > 1e9


@STABLE
@given(LATER)
def test_any_retry_after_is_read_without_an_error(text: str) -> None:
    """D4: no header makes the client fail; what is read is a time that is not negative."""
    seconds = retry_after(text)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(("later", "left", "expected"), [("2", 5.0, 2.0), ("2", 2.0, None), ("0", 5.0, 0.0)])
def test_retry_after_is_obeyed_within_what_is_left(later: str, left: float, expected: float | None) -> None:
    """A wait that fits is obeyed as asked; one that does not fit is replaced by the usual one."""
    pause = Policy(3, may_repeat_abort).pause(Answer(503, headers=(("retry-after", later),)), 1, left)
    assert pause == expected if expected is not None else pause is not None and pause < 0.5


def test_with_nothing_left_nothing_is_begun() -> None:
    """With no time left there is no other attempt, whatever the server asks for."""
    assert Policy(3, may_repeat_abort).pause(BUSY, 1, 0.0) is None
    assert Policy(3, may_repeat_abort).pause(Answer(503, headers=(("retry-after", "0"),)), 1, 0.0) is None
