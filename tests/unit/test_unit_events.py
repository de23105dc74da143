"""Events: what a callback is told is a value that can be kept, compared and sent to another process."""

from __future__ import annotations

import pickle
from typing import get_args

import pytest

from abort_sync import Attempt, AttemptEvent, Event, Outcome, OutcomeEvent, Report, ReportEvent, RoundEvent, Status

OUTCOME = Outcome("http://h:1", "router", "r", Status.ACCEPTED)
EVENTS = [
    AttemptEvent("abort_all", "abort", "http://h:1", None, Attempt(1, 0.5, 200)),
    OutcomeEvent("abort_all", OUTCOME),
    RoundEvent("abort_until_idle", 1, workers=3, idle=1, remaining=4, unknown=1),
    ReportEvent(Report("abort_all", (OUTCOME,))),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_a_value(event: Event) -> None:
    """An event is frozen and survives pickle, so a callback may put it on any queue."""
    copy = pickle.loads(pickle.dumps(event))
    assert copy == event
    assert copy is not event
    with pytest.raises(AttributeError):
        event.operation = "x"  # type: ignore[misc, union-attr]  # wrong on purpose


def test_every_event_is_among_the_kinds() -> None:
    """`Event` names each class that a callback can be given."""
    assert set(get_args(Event)) == {type(event) for event in EVENTS}
