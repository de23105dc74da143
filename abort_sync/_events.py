"""What ``on_event`` is told: frozen, typed, and free of secrets. This room knows nothing of HTTP or threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Union

from ._report import Attempt, Outcome, Report


@dataclass(frozen=True)
class AttemptEvent:
    """One HTTP exchange ended.

    Attributes:
        operation: The method that was called.
        kind: What was asked: ``"list"``, ``"abort"``, ``"load"`` or ``"flush"``.
        target: The server's URL (credentials masked), or the instance id of a flush.
        rid: The request id, or None.
        attempt: Its number, time, HTTP status and error.
    """

    operation: str
    kind: str
    target: str
    rid: Optional[str]
    attempt: Attempt


@dataclass(frozen=True)
class OutcomeEvent:
    """A target's outcome stands; given once a target, before the report.

    Attributes:
        operation: The method that was called.
        outcome: What became of the target.
    """

    operation: str
    outcome: Outcome


@dataclass(frozen=True)
class RoundEvent:
    """Until idle: a round over all workers ended.

    Attributes:
        operation: The method that was called.
        number: Counts from 1.
        workers: How many workers are known.
        idle: How many of them have reported no work, at least in their last reading.
        remaining: The requests that the others reported, where it could be read.
        unknown: How many workers' load could not be read.
    """

    operation: str
    number: int
    workers: int
    idle: int
    remaining: int
    unknown: int


@dataclass(frozen=True)
class ReportEvent:
    """The call ended; nothing follows.

    Attributes:
        report: The report that the caller is about to get.
    """

    report: Report


Event = Union[AttemptEvent, OutcomeEvent, RoundEvent, ReportEvent]
OnEvent = Callable[[Event], object]
