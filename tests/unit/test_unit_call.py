"""One call: what is known of a target at any moment, its attempts, its events, and what happens when it is cut."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from call_stage import stage
from fake_steps import Steps

from abort_sync import AttemptEvent, Keys, Status
from abort_sync._answer import Answer, Order
from abort_sync._call import Call, Tries
from abort_sync._deadline import Deadline
from abort_sync._sockets import Line

URL = "http://w:1"
ORDER = Order("POST", f"{URL}/abort_request")
LOST = Answer(error="timed out while waiting for the answer")
UNSENT = Answer(error="connection refused while connecting", is_sent=False)


def plain(text: str) -> str:
    return text


def tried(*answers: Answer, **more: Any) -> Tries:
    tries = Tries("abort", URL, "router", "r", **more)
    for answer in answers:
        tries.answers.append(answer)
        tries.statuses.append(tries.judge(answer))
    return tries


def line(is_sent: bool) -> Line:
    one = Line(Deadline.after(60.0))
    one.is_sent, one.phase = is_sent, "waiting for the answer" if is_sent else "connecting"
    return one


@pytest.mark.parametrize(
    ("answers", "status", "http_status", "error"),
    [
        ([], Status.NOT_SENT, None, "the deadline came before anything was sent"),
        ([Answer(200)], Status.ACCEPTED, 200, None),
        ([Answer(503), Answer(200)], Status.ACCEPTED, 200, None),
        ([UNSENT, UNSENT], Status.UNREACHABLE, None, "connection refused"),
        ([LOST, Answer(503)], Status.UNKNOWN, 503, "timed out"),
        ([Answer(503), UNSENT], Status.REJECTED, 503, "HTTP 503"),
        ([Answer(500, b"old"), Answer(500, b"new")], Status.REJECTED, 500, "the server said: new"),
    ],
)
def test_what_the_attempts_come_to(answers: list[Answer], status: Status, http_status: int | None, error: str | None) -> None:
    """The outcome is the strongest claim of all attempts, explained by the attempt that it rests on."""
    outcome = tried(*answers).outcome(plain)
    assert (outcome.status, outcome.http_status, len(outcome.attempts)) == (status, http_status, len(answers))
    assert [one.number for one in outcome.attempts] == list(range(1, len(answers) + 1))
    assert (outcome.error is None) if error is None else (error in str(outcome.error))


@pytest.mark.parametrize(
    ("answers", "is_sent", "status", "error"),
    [
        ([], False, Status.UNREACHABLE, "the deadline came while connecting"),
        ([], True, Status.UNKNOWN, "the deadline came while waiting for the answer"),
        ([Answer(503)], False, Status.REJECTED, "HTTP 503"),
        ([Answer(503)], True, Status.UNKNOWN, "the deadline came while waiting"),
        ([Answer(200)], True, Status.ACCEPTED, None),
    ],
)
def test_an_attempt_under_way_counts_as_far_as_it_got(answers: list[Answer], is_sent: bool, status: Status, error: str | None) -> None:
    """Asked in the middle of an attempt, the outcome is what holds if nothing more comes: UNREACHABLE unsent, UNKNOWN sent."""
    tries = tried(*answers)
    tries.line = line(is_sent)
    outcome = tries.outcome(plain)
    assert outcome.status is status
    assert (outcome.error is None) if error is None else (error in str(outcome.error))


def test_what_was_decided_without_sending_stands_until_something_is_sent() -> None:
    """A worker that was skipped has that status and cause; once there is an answer, the answer stands."""
    skipped = (Status.UNSUPPORTED, "reached over grpc://")
    assert (tried(skipped=skipped).outcome(plain).status, tried(skipped=skipped).outcome(plain).error) == skipped
    assert tried(Answer(200), skipped=skipped).outcome(plain).status is Status.ACCEPTED


def test_keys_are_taken_out_of_every_text() -> None:
    """E6: neither the outcome's error nor an attempt's shows a key that a library's or a server's text repeated."""
    call, _ = stage(lambda order: Answer(error="InvalidHeader: Bearer hunter2"), worker_urls=[URL], keys=Keys(worker="hunter2"))
    tries = Tries("abort", URL)
    Steps().run(call.deliver(ORDER, tries))
    outcome = tries.outcome(call.scrub)
    assert len(outcome.attempts) == 3
    assert "hunter2" not in repr(outcome)
    assert "***" in str(outcome.error)


def test_nothing_is_sent_after_the_cut_or_the_deadline() -> None:
    """What is cut is not begun again, and with no time left no attempt is made: NOT_SENT."""
    for prepare in (lambda call: call._cut(), lambda call: setattr(call, "deadline", Deadline.after(0.0))):
        call, transport = stage(lambda order: Answer(200), worker_urls=[URL])
        prepare(call)
        tries = Tries("abort", URL)
        answer = call.exchange(ORDER, tries, None)
        assert transport.orders == []
        assert (answer.is_sent, tries.outcome(plain).status) == (False, Status.NOT_SENT)


def test_a_cut_reaches_the_attempt_under_way() -> None:
    """Cutting a call cuts the line of each attempt that is under way."""
    lines: list[Line] = []
    call, transport = stage(lambda order: Answer(200), worker_urls=[URL])

    def attempt(order: Order, line: Line, deadline: Deadline) -> Answer:
        lines.append(line)
        call._cut()
        return LOST

    transport.attempt = attempt  # type: ignore[method-assign]  # a stand-in
    call.exchange(ORDER, Tries("abort", URL), None)
    assert [(one.is_cut, one.why) for one in lines] == [(True, "cut off since the call had ended")]  # its deadline is far


@pytest.mark.parametrize(
    ("is_bounded", "is_short", "expected"), [(True, False, 1.0), (True, True, 1.0), (False, True, 1.0), (False, False, 60.0)]
)
def test_an_attempt_gets_its_share_of_the_time(is_bounded: bool, is_short: bool, expected: float) -> None:
    """Where steps wait for a thread; a flush, which a limit would hang up on in its teardown, only where threads were refused."""
    seen: list[float] = []
    call, transport = stage(lambda order: Answer(200), worker_urls=[URL], timeout_s=60.0)
    transport.attempt = lambda order, line, deadline: (seen.append(deadline.left()), Answer(200))[1]  # type: ignore[method-assign]  # a stand-in
    call._fan_out = SimpleNamespace(share_s=lambda: 1.0, is_short=is_short)  # type: ignore[assignment]  # a stand-in
    call.exchange(replace(ORDER, is_bounded=is_bounded), Tries("abort", URL), None)
    assert expected - 1.0 < seen[0] <= expected


def test_a_part_of_a_call_has_its_own_earlier_deadline() -> None:
    """An attempt gets the earlier of the call's deadline and its part's; a later one does not put the call's off."""
    seen: list[float] = []
    call, transport = stage(lambda order: Answer(200), worker_urls=[URL], timeout_s=60.0)
    transport.attempt = lambda order, line, deadline: (seen.append(deadline.left()), Answer(200))[1]  # type: ignore[method-assign]  # a stand-in
    for part in (None, Deadline.after(10.0), Deadline.after(600.0)):
        call.exchange(ORDER, Tries("abort", URL), part)
    assert 50 < seen[0] <= 60
    assert 0 < seen[1] <= 10
    assert 50 < seen[2] <= 60


def run_with(on_event: Any) -> Call:
    call, _ = stage(lambda order: Answer(503), worker_urls=[URL], on_event=on_event)
    call.run(call.deliver(ORDER, Tries("abort", URL, rid="r")))
    return call


def test_each_attempt_is_an_event() -> None:
    """The callback is told of every attempt, numbered, with its status."""
    events: list[Any] = []
    run_with(events.append)
    assert [(type(one), one.kind, one.target, one.rid, one.attempt.number, one.attempt.http_status) for one in events] == [
        (AttemptEvent, "abort", URL, "r", number, 503) for number in (1, 2, 3)
    ]


def test_a_callback_that_fails_is_logged_once_and_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """What the callback raises is one warning a call, without keys; the attempts go on."""
    told: list[Any] = []

    def broken(event: Any) -> None:
        told.append(event)
        raise RuntimeError("my own defect")

    run_with(broken)
    assert len(told) == 3
    assert [(one.levelno, one.getMessage()) for one in caplog.records] == [
        (logging.WARNING, "on_event raised RuntimeError: my own defect; the call goes on")
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_the_callback_comes_through(error: type[BaseException]) -> None:
    """Ctrl-C while the callback runs is no failure of the callback: it ends the call."""

    def interrupted(event: Any) -> None:
        raise error

    with pytest.raises(error):
        run_with(interrupted)
