"""Runs pieces of work as the fan-out does, but one step at a time and on a clock that only waits move."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from abort_sync._fanout import Spawn


class Steps:
    """A deterministic fan-out.

    Args:
        before: Is called with the time before each step.
    """

    def __init__(self, before: Callable[[float], None] = lambda now: None) -> None:
        self.now = 0.0
        self._before = before
        self._ready: list[tuple[float, int, Iterator[Any], Callable[[], None]]] = []
        self._count = 0

    def run(self, work: Iterator[Any], until_s: float = 1e9) -> bool:
        """Run a piece and all that it starts; say whether all of it ended before the time."""
        self._push(work, 0.0, lambda: None)
        while self._ready:
            when, _, piece, ended = heapq.heappop(self._ready)
            if when > until_s:
                return False
            self.now = max(self.now, when)
            self._before(self.now)
            self._step(piece, ended)
        return True

    def _step(self, piece: Iterator[Any], ended: Callable[[], None]) -> None:
        try:
            asked = next(piece)
        except StopIteration:
            ended()
            return
        if isinstance(asked, (int, float)):
            self._push(piece, asked, ended)
        elif isinstance(asked, Spawn):
            for work in asked.works:
                self._push(iter(work), 0.0, lambda: None)
            self._push(piece, 0.0, ended)
        elif asked:
            left = [len(asked)]

            def one_ended() -> None:
                left[0] -= 1
                if not left[0]:
                    self._push(piece, 0.0, ended)

            for work in asked:
                self._push(iter(work), 0.0, one_ended)
        else:
            self._push(piece, 0.0, ended)

    def _push(self, piece: Iterator[Any], wait_s: float, ended: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._ready, (self.now + wait_s, self._count, piece, ended))
