"""Workers for the storm test, which misbehave by a plan, and what a client may claim after it; nothing here is taken from the client."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from abort_sync.testing import Behaviour, LoopbackWorker, Received


class Fault(NamedTuple):
    """What a worker does with one request, the strongest true claim about it, and whether it is sent again."""

    claim: str
    is_repeated: bool
    is_whole: bool
    behaviour: Behaviour | None


def _no(claim: str, status: int, is_repeated: bool = False) -> Fault:
    return Fault(claim, is_repeated, True, Behaviour.answer(status, "no", {"retry-after": "0"}))


def _lost(behaviour: Behaviour) -> Fault:
    return Fault("UNKNOWN", True, False, behaviour)


WELL = Fault("ACCEPTED", False, True, None)
QUICK = [
    _no("REJECTED", 503, True), _no("REJECTED", 500, True), _no("REJECTED", 429, True), _no("REJECTED", 408, True), _no("REJECTED", 400),
    _no("REFUSED", 401), _no("REFUSED", 403), _no("UNSUPPORTED", 404), _no("UNSUPPORTED", 405), _no("UNSUPPORTED", 501),
    Fault("REJECTED", False, True, Behaviour.redirect("http://127.0.0.1:9/abort_request", 302)),
    Fault("UNKNOWN", False, True, Behaviour.html()), Fault("UNKNOWN", False, True, Behaviour.answer(204)),
    _lost(Behaviour.reset()), _lost(Behaviour.reset(obey=True)), _lost(Behaviour.cut_body()), _lost(Behaviour.endless_body()),
]  # fmt: skip
SLOW = [_lost(Behaviour.hang()), _lost(Behaviour.drip_headers(interval_s=0.5)), _lost(Behaviour.drip_body(interval_s=0.5))]
DEAD = Fault("UNREACHABLE", True, False, None)
ATTEMPTS = 3


def plan(seed: str, worker: int, rid: str, is_slow: bool) -> list[Fault]:
    """Return what a worker will do with each attempt at a rid."""
    chance = random.Random(f"{seed}/{worker}/{rid}")
    faults = QUICK + SLOW * 3 if is_slow else QUICK
    return [WELL if chance.random() < 0.6 else chance.choice(faults) for _ in range(ATTEMPTS)]


class StormWorker(LoopbackWorker):
    """A worker that does as planned, by rid and by how often the rid has come; a rid that begins with ``slow`` may hang.

    Attributes:
        got: By rid, what was done with each of its requests.
    """

    def __init__(self, seed: str, number: int) -> None:
        self.seed, self.number = seed, number
        self.got: dict[str, list[Fault]] = defaultdict(list)
        super().__init__(f"storm-{number}")

    def planned(self, rid: str) -> list[Fault]:
        return plan(self.seed, self.number, rid, rid.startswith("slow"))

    def _record(self, request: Received) -> Behaviour | None:
        super()._record(request)
        rid = request.json["rid"]
        with self._changed:
            done = self.got[rid]
            done.append(self.planned(rid)[len(done)] if len(done) < ATTEMPTS else WELL)
            return done[-1].behaviour


def strongest(claims: Sequence[str]) -> str:
    """Return the strongest claim that is true of all attempts together."""
    if not claims:
        return "NOT_SENT"
    for one in ("ACCEPTED", "UNKNOWN"):
        if one in claims:
            return one
    return next((one for one in reversed(claims) if one != "UNREACHABLE"), "UNREACHABLE")


def made(faults: Sequence[Fault]) -> list[Fault]:
    """Return the attempts that are made if there is time for all."""
    end = next((number for number, one in enumerate(faults, 1) if not one.is_repeated), ATTEMPTS)
    return list(faults[:end])
