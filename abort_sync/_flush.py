"""Flush the trials of instance ids at an agent server, once or until quiet. This room knows nothing of workers.

Source: the public contract of the agent server's bridge: ``POST /flush {"session_server_instance_id": id}`` answers 200
``{"session_server_instance_id": id, "cancelled": n}`` after the cancelled trials are torn down; an unknown id answers 200 with 0;
trials that wait for a slot are not counted and start afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Optional

from ._answer import Order
from ._call import Call, Tries
from ._deadline import Deadline
from ._fanout import Step
from ._judge import cancelled, judge_flush
from ._policy import Policy, may_repeat_flush
from ._report import Outcome, Status

QUIET_SPACING_S = 0.5
"""Seconds between two flushes of one instance id, until quiet."""


@dataclass
class Flush:
    """The flushes of one instance id.

    Attributes:
        call: The call.
        instance_id: Whose trials.
        until_quiet: Whether to flush again until two in a row found nothing (a waiting trial starts after a flush).
        limit: An earlier deadline than the call's, where something else must still be done after the flush.
    """

    call: Call
    instance_id: str
    until_quiet: bool
    limit: Optional[Deadline] = None

    def __post_init__(self) -> None:
        self.tries = self._new_tries()
        self.total: Optional[int] = None
        self.last = 0
        self.flushes = 0
        self.is_quiet = not self.until_quiet
        self.has_ended = False

    def work(self) -> Generator[Step, None, None]:
        """Flush; the teardown is waited for up to the call's deadline."""
        server = self.call.settings.agent_server
        assert server is not None
        body = json.dumps({"session_server_instance_id": self.instance_id}).encode()
        order = Order("POST", f"{server.text}/flush", self.call.settings.keys.agent, body, is_bounded=False)
        policy = Policy(self.call.settings.limits.attempts, may_repeat_flush)
        zeros = 0
        try:
            while True:
                answer = yield from self.call.deliver(order, self.tries, self.limit, policy)
                count = cancelled(answer, self.instance_id) if answer.is_whole else None
                if self.tries.judge(answer) is not Status.ACCEPTED or count is None:
                    return
                self.flushes += 1
                self.last, self.total = count, (self.total or 0) + count
                zeros = zeros + 1 if count == 0 else 0
                if not self.until_quiet or zeros == 2:
                    self.is_quiet = True
                    return
                if self.call.deadline.left() <= QUIET_SPACING_S:
                    return
                yield QUIET_SPACING_S
                self.tries = self._new_tries(self.tries.began)
        finally:
            self.has_ended = True

    def outcome(self) -> Outcome:
        """Return what is known now."""
        known = replace(self.tries.outcome(self.call.scrub), cancelled=self.total)
        if known.status is Status.NOT_SENT and self.flushes and not self.last:  # the first flush found nothing, time for no second
            return replace(known, status=Status.ACCEPTED, error=None)
        if known.status is Status.UNKNOWN and self._is_out_of_time():
            return replace(known, error=f"delivered, still tearing down: {known.error}")
        if self.last and not self.is_quiet and known.status in (Status.ACCEPTED, Status.NOT_SENT):
            return replace(
                known, status=Status.BUSY, error=f"trials kept starting: the last of {self.flushes} flushes still cancelled {self.last}"
            )
        return known

    def _is_out_of_time(self) -> bool:
        line, answers = self.tries.line, self.tries.answers
        return line is not None or (bool(answers) and (answers[-1].error or "").startswith(("timed out", "cut off")))

    def _new_tries(self, began: float = 0.0) -> Tries:
        return Tries(
            "flush",
            self.instance_id,
            key_hint="keys.agent (HARBOR_ADMIN_SECRET)",
            judge=lambda answer: judge_flush(answer, self.instance_id),
            began=began,
        )
