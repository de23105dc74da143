"""One public call: its deadline, its connections, its events, and the attempts at one target. This room knows nothing of workers."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Callable, Optional, TypeVar, cast

from ._answer import Answer, Order, readable, without_login
from ._config import Settings
from ._deadline import Deadline
from ._errors import AbortSyncError
from ._events import AttemptEvent, Event
from ._fanout import FanOut, Step, Work
from ._judge import explain, judge, together
from ._policy import Policy, may_repeat_abort
from ._report import Attempt, Outcome, Report, Status
from ._sockets import Line
from ._transport import Transport

log = logging.getLogger("abort_sync")
Judge = Callable[[Answer], Status]
_Operation = TypeVar("_Operation", bound=Callable[..., Report])


@dataclass
class Tries:
    """All that was tried at one target; it can be asked for the outcome at any moment, also while an attempt is under way.

    Attributes:
        kind: ``list``, ``abort``, ``load`` or ``flush``.
        target: What the outcome is about, credentials masked.
        key_hint: The key that the server would want.
        judge: What an answer proves.
        skipped: Why nothing was sent, and with which status, where that was decided without sending.
        note: What the reader of the report should know about it.
    """

    kind: str
    target: str
    via: Optional[str] = None
    rid: Optional[str] = None
    key_hint: str = "keys.worker (ABORT_SYNC_WORKER_KEY)"
    judge: Judge = judge
    skipped: Optional[tuple[Status, str]] = None
    answers: list[Answer] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0
    line: Optional[Line] = None
    note: Optional[str] = None

    def outcome(self, scrub: Callable[[str], str]) -> Outcome:
        """Return what is known now."""
        line = self.line  # read first: an attempt that ends meanwhile is then in the statuses too
        statuses = list(self.statuses)
        answers = self.answers[: len(statuses)]
        if line is None and not statuses:  # of many thousand targets most may be such
            status, why = self.skipped or (Status.NOT_SENT, why_unsent())
            return Outcome(self.target, self.via, self.rid, status, error=scrub(why))
        if line is not None:
            statuses.append(Status.UNKNOWN if line.is_sent else Status.UNREACHABLE)
        status = together(statuses)
        decisive = len(statuses) - 1 - statuses[::-1].index(status)
        if line is not None and decisive == len(answers):
            error: Optional[str] = f"the deadline came while {line.phase}"
        else:
            error = explain(answers[decisive], status, self.key_hint, scrub)
        whole = [answer.status for answer in answers if answer.is_whole]
        end = time.monotonic() if line is not None else self.ended
        return Outcome(
            target=self.target,
            via=self.via,
            rid=self.rid,
            status=status,
            http_status=whole[-1] if whole else None,
            attempts=tuple(as_attempt(number, answer, scrub) for number, answer in enumerate(answers, 1)),
            elapsed_s=max(0.0, end - self.began) if self.began else 0.0,
            error=scrub(error) if error else None,
        )


_SHUTTING_DOWN = "the interpreter is shutting down: delivery is promised up to atexit, and nothing is sent after that"


def why_unsent() -> str:
    """Return why nothing was sent, where nothing stood against it but time."""
    return _SHUTTING_DOWN if sys.is_finalizing() else "the deadline came before anything was sent"


def reports_to_the_end(operation: _Operation) -> _Operation:
    """Make a public operation report, not raise, in ``__del__`` when the interpreter is so far gone that most names are None."""
    is_finalizing, misuse, report, error = sys.is_finalizing, AbortSyncError, Report, _SHUTTING_DOWN  # also this room's own

    @wraps(operation)
    def run(*args: Any, **kwargs: Any) -> Report:
        try:
            return operation(*args, **kwargs)
        except Exception as why:
            if not is_finalizing() or isinstance(why, misuse):
                raise
            return report(operation.__name__, error=error)

    return cast(_Operation, run)


def as_attempt(number: int, answer: Answer, scrub: Callable[[str], str]) -> Attempt:
    """Return one exchange as a report shows it."""
    return Attempt(number, answer.elapsed_s, answer.status, scrub(answer.error) if answer.error else None)


class Call:
    """What everything inside one public call shares.

    Args:
        operation: The public method's name.
        settings: The client's settings.
        timeout_s: Seconds for the whole call.
    """

    def __init__(self, operation: str, settings: Settings, timeout_s: float) -> None:
        self.operation, self.settings = operation, settings
        self.began = time.monotonic()
        self.deadline = Deadline.after(timeout_s)
        self.scrub = settings.keys.scrub
        self._lines: dict[Line, float] = {}  # when each may be trimmed from; never for a flush, which it would cut into
        self._lock = threading.Lock()
        self._is_cut = False
        self._fan_out: Optional[FanOut] = None
        self._broken_callback = False
        if sys.is_finalizing():
            return  # nothing will be sent, and the libraries may be torn down already
        self._transport = Transport(settings.verify, settings.trust_env, settings.limits)
        self._abort_policy = Policy(settings.limits.attempts, may_repeat_abort)

    def run(self, work: Work) -> None:
        """Run a piece of work to its end or to the deadline; the state it leaves in its objects is what counts.

        While the interpreter is torn down nothing is run: threads never get their turn, and 3.13 can crash in its collector.

        Raises:
            BaseException: What interrupted the calling thread; everything under way has been cut.
        """
        if sys.is_finalizing():
            return
        self._fan_out = FanOut(work, self.deadline, self.settings.limits.threads, self._cut, self._trim)
        self._fan_out.run()

    def deliver(
        self, order: Order, tries: Tries, deadline: Optional[Deadline] = None, policy: Optional[Policy] = None
    ) -> Generator[Step, None, Answer]:
        """Make attempts at one target until the policy says no more; the last answer is returned, all are in ``tries``.

        Args:
            order: What to send.
            tries: Where the answers are kept.
            deadline: An earlier one than the call's, for a part of the call.
            policy: What is tried again; the one for aborts and looks if None.
        """
        while True:
            answer = self.exchange(order, tries, deadline)
            pause = self.pause(answer, deadline, len(tries.answers), policy)
            if pause is None:
                return answer
            yield pause

    def pause(self, answer: Answer, deadline: Optional[Deadline], number: int, policy: Optional[Policy] = None) -> Optional[float]:
        """Return the seconds to wait before another attempt, or None for no further one; ``number`` attempts were made."""
        return (policy or self._abort_policy).pause(answer, max(1, number), self._limit(deadline).left())

    def emit(self, event: Event) -> None:
        """Hand an event to the callback, in the calling thread."""
        if self.settings.on_event is not None and self._fan_out is not None:
            self._fan_out.tell(lambda: self.call_back(event))

    def call_back(self, event: Event) -> None:
        """Call the callback; what it raises is logged once a call and never fails an abort."""
        if self.settings.on_event is None:
            return
        try:
            self.settings.on_event(event)
        except Exception as why:
            if not self._broken_callback:
                self._broken_callback = True
                log.warning("on_event raised %s; the call goes on", self.scrub(f"{type(why).__name__}: {why}"))

    def elapsed_s(self) -> float:
        """Return the seconds since the call began."""
        return time.monotonic() - self.began

    def _limit(self, deadline: Optional[Deadline]) -> Deadline:
        return self.deadline if deadline is None or deadline.at > self.deadline.at else deadline

    def exchange(self, order: Order, tries: Tries, deadline: Optional[Deadline]) -> Answer:
        """Make one attempt at one target and keep its answer in ``tries``.

        Args:
            order: What to send.
            tries: Where the answer is kept.
            deadline: An earlier one than the call's, for a part of the call; None for the call's own.
        """
        limit = self._limit(deadline)
        fan_out = self._fan_out
        share = fan_out.share_s() if fan_out is not None and (order.is_bounded or fan_out.is_short) else None
        if share is not None:
            limit = limit.within(share)
        line = Line(limit)
        began = time.monotonic()
        tries.began = tries.began or began
        with self._lock:
            is_cut = self._is_cut
            if not is_cut:
                self._lines[line] = began if order.is_bounded else math.inf
        if is_cut or limit.is_over:
            with self._lock:
                self._lines.pop(line, None)
            answer = Answer(error=why_unsent(), is_sent=False)
            if not tries.statuses:
                tries.skipped = tries.skipped or (Status.NOT_SENT, why_unsent())
            return answer
        tries.line = line
        answer = without_login(self._transport.attempt(order, line, limit), order.url)
        if answer.error is not None:
            answer = replace(answer, error=readable(self.scrub(answer.error), 300))
        tries.answers.append(answer)
        tries.statuses.append(tries.judge(answer))
        tries.ended = time.monotonic()
        tries.line = None
        with self._lock:
            self._lines.pop(line, None)
        number = len(tries.answers)
        if self.settings.on_event is not None:
            self.emit(AttemptEvent(self.operation, tries.kind, tries.target, tries.rid, as_attempt(number, answer, self.scrub)))
        return answer

    def _trim(self, longest_s: float) -> None:
        with self._lock:
            lines = list(self._lines.items())
        for line, began in lines:
            if time.monotonic() - began > longest_s:
                line.cut("cut off so that other targets get their turn")

    def _cut(self) -> None:
        with self._lock:
            self._is_cut = True
            lines = list(self._lines)
        why = "cut off at the deadline" if self.deadline.is_over else "cut off since the call had ended"
        for line in lines:
            line.cut(why)
