"""Flushes, without sockets: when one is repeated, and what becomes of an instance id."""

from __future__ import annotations

import json
from typing import Any

import pytest
from call_stage import ScriptedTransport, stage
from fake_steps import Steps

from abort_sync import Keys, Outcome, Status
from abort_sync._answer import Answer, Order
from abort_sync._flush import Flush

AGENT = "http://agents:9"
UNSENT = Answer(error="connection refused", is_sent=False)
LOST = Answer(error="timed out while waiting for the answer")


def yes(count: int = 0, instance_id: str = "id-1") -> Answer:
    return Answer(200, json.dumps({"session_server_instance_id": instance_id, "cancelled": count}).encode())


def flush(*answers: Answer, until_quiet: bool = False, **client: Any) -> tuple[Outcome, ScriptedTransport, float, Flush]:
    script = list(answers)

    def answer(order: Order) -> Answer:
        return script.pop(0)

    call, transport = stage(answer, agent_server_url=AGENT, **client)
    one = Flush(call, "id-1", until_quiet)
    steps = Steps()
    assert steps.run(one.work())
    return one.outcome(), transport, steps.now, one


@pytest.mark.parametrize(
    ("answers", "status", "cancelled", "tries"),
    [
        ([yes(3)], Status.ACCEPTED, 3, 1),
        ([yes(0)], Status.ACCEPTED, 0, 1),
        ([UNSENT, yes(1)], Status.ACCEPTED, 1, 2),
        ([Answer(503), Answer(429), yes(2)], Status.ACCEPTED, 2, 3),
        ([Answer(502)] * 3, Status.REJECTED, None, 3),
        ([UNSENT] * 3, Status.UNREACHABLE, None, 3),
        ([LOST], Status.UNKNOWN, None, 1),
        ([UNSENT, LOST], Status.UNKNOWN, None, 2),
        ([Answer(500)], Status.REJECTED, None, 1),
        ([Answer(504)], Status.REJECTED, None, 1),
        ([Answer(401)], Status.REFUSED, None, 1),
        ([Answer(404)], Status.UNSUPPORTED, None, 1),
        ([Answer(422)], Status.REJECTED, None, 1),
        ([yes(3, "id-2")], Status.UNKNOWN, None, 1),
        ([Answer(200)], Status.UNKNOWN, None, 1),
    ],
)
def test_a_flush_is_repeated_only_if_it_surely_did_not_arrive(
    answers: list[Answer], status: Status, cancelled: int | None, tries: int
) -> None:
    """C3: refused and 429/502/503 are tried again; what may have been delivered never is, since a second flush cuts into the teardown."""
    outcome, transport, _, _ = flush(*answers)
    assert (outcome.status, outcome.cancelled, len(transport.orders), len(outcome.attempts)) == (status, cancelled, tries, tries)
    assert (outcome.target, outcome.via, outcome.rid, outcome.error is None) == ("id-1", None, None, status is Status.ACCEPTED)


def test_what_is_sent_and_with_which_key() -> None:
    """The contract: POST /flush with the instance id, keys.agent and no other, and no read limit of one attempt."""
    _, transport, _, _ = flush(yes(), keys=Keys(router="r", worker="w", worker_admin="a", agent="g"))
    (order,) = transport.orders
    assert (order.method, order.url, order.key, order.is_bounded) == ("POST", f"{AGENT}/flush", "g", False)
    assert json.loads(order.body or b"") == {"session_server_instance_id": "id-1"}


def test_a_wrong_secret_names_the_variable() -> None:
    """C7: one attempt, and the error names HARBOR_ADMIN_SECRET and not its value."""
    outcome, _, _, _ = flush(Answer(401), keys=Keys(agent="hunter2"))
    assert "HARBOR_ADMIN_SECRET" in str(outcome.error)
    assert "hunter2" not in str(outcome)


@pytest.mark.parametrize(
    ("answers", "cancelled", "seconds"),
    [
        ([yes(0), yes(0)], 0, 0.5),
        ([yes(2), yes(0), yes(0)], 2, 1.0),
        ([yes(0), yes(1), yes(0), yes(0)], 1, 1.5),
        ([yes(2), yes(3), yes(0), yes(0)], 5, 1.5),
    ],
)
def test_until_quiet_flushes_until_two_in_a_row_found_nothing(answers: list[Answer], cancelled: int, seconds: float) -> None:
    """C4: flushes are spaced by half a second, counts are added, and two zeros in a row end it."""
    outcome, transport, now, one = flush(*answers, until_quiet=True)
    assert (outcome.status, outcome.cancelled, len(transport.orders)) == (Status.ACCEPTED, cancelled, len(answers))
    assert now == pytest.approx(seconds)
    assert one.is_quiet
    assert one.has_ended


@pytest.mark.parametrize(("answers", "status"), [([yes(2), LOST], Status.UNKNOWN), ([yes(2), Answer(401)], Status.REFUSED)])
def test_until_quiet_ends_with_the_first_flush_that_fails(answers: list[Answer], status: Status) -> None:
    """A later flush that fails is the outcome; what earlier ones cancelled is still told."""
    outcome, _, _, one = flush(*answers, until_quiet=True)
    assert (outcome.status, outcome.cancelled, one.is_quiet, one.has_ended) == (status, 2, False, True)


@pytest.mark.parametrize(("last", "status"), [(4, Status.BUSY), (0, Status.ACCEPTED)])
def test_time_for_no_second_flush(last: int, status: Status) -> None:
    """Trials that kept starting up to the deadline are BUSY; a first flush that found nothing is ACCEPTED without a second one."""
    call, _ = stage(lambda order: yes(last), agent_server_url=AGENT, timeout_s=0.4)
    one = Flush(call, "id-1", until_quiet=True)
    assert Steps().run(one.work())
    outcome = one.outcome()
    assert (outcome.status, outcome.cancelled) == (status, last)
    if status is Status.BUSY:
        assert "trials kept starting" in str(outcome.error)


def test_a_flush_that_was_never_begun() -> None:
    """An instance id whose flush was not begun is NOT_SENT."""
    call, _ = stage(lambda order: yes(), agent_server_url=AGENT)
    outcome = Flush(call, "id-1", until_quiet=False).outcome()
    assert (outcome.status, outcome.cancelled, outcome.attempts) == (Status.NOT_SENT, None, ())
