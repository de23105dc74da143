"""A deadline is one point on the monotonic clock."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from abort_sync._deadline import Deadline


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("abort_sync._deadline.time", clock)
    return clock


def test_what_is_left_shrinks_to_zero_and_stays_there(clock: SimpleNamespace) -> None:
    """What is left is the time to the deadline, and never below zero."""
    deadline = Deadline.after(5.0)
    seen = []
    for clock.now in (100.0, 102.0, 105.0, 200.0):
        seen.append((deadline.left(), deadline.is_over))
    assert seen == [(5.0, False), (3.0, False), (0.0, True), (0.0, True)]


@pytest.mark.parametrize(("seconds", "expected"), [(2.0, 102.0), (5.0, 105.0), (9.0, 105.0), (0.0, 100.0)])
def test_a_part_never_outlasts_the_whole(clock: SimpleNamespace, seconds: float, expected: float) -> None:
    """`within` gives the earlier of the two points, so a part of a call cannot outlast the call."""
    assert Deadline.after(5.0).within(seconds).at == expected


def test_a_deadline_does_not_change(clock: SimpleNamespace) -> None:
    """A deadline is frozen: nobody inside a call can put it off."""
    with pytest.raises(AttributeError):
        Deadline(1.0).at = 2.0  # type: ignore[misc]  # wrong on purpose
