"""Abort what a block started, if the block does not end well. This room knows nothing of HTTP."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Optional

from ._report import Report
from ._rids import check_rid

AGAIN_AFTER_S = 0.2
"""An abort that arrives before its generate is forgotten by the engine (SGLang 0.5.23, 30 of 30), so it is sent once more."""


class AbortGuard:
    """Aborts its rids if the ``with`` block ends by any exception, KeyboardInterrupt and SystemExit included.

    The exception goes on unchanged, and the abort's own failure never hides it. A block that ends well sends nothing.

    Attributes:
        report: What happened, or None if nothing had to be aborted.
    """

    def __init__(
        self, abort_requests: Callable[[Sequence[str]], Report], rids: Sequence[str], logger: Optional[logging.Logger] = None
    ) -> None:
        self._abort_requests = abort_requests
        self._rids = list(rids)
        self._log = logger or logging.getLogger("abort_sync")
        self.report: Optional[Report] = None

    def add(self, rid: str) -> str:
        """Have one more rid aborted if the block fails, and return it.

        Args:
            rid: The request's id; not blank.

        Raises:
            ConfigurationError: The rid is not usable.
        """
        self._rids.append(check_rid(rid))
        return rid

    def __enter__(self) -> AbortGuard:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], why: Optional[BaseException], where: Optional[TracebackType]) -> None:
        if kind is None or not self._rids:
            return
        try:
            self.report = first = self._abort_requests(self._rids)
            time.sleep(AGAIN_AFTER_S)
            self.report = _both(first, self._abort_requests(self._rids))
        except Exception:
            self._log.warning("the abort of a failed block failed itself", exc_info=True)


def _both(first: Report, second: Report) -> Report:
    """Return one report: of the two outcomes of a rid at a worker the better one, the later one if equally good."""
    later = {(one.target, one.rid): one for one in second.outcomes}
    outcomes = []
    for one in first.outcomes:
        again = later.pop((one.target, one.rid), one)
        outcomes.append(one if one.ok and not again.ok else again)
    return replace(
        second,
        operation="abort_on_exit",
        outcomes=(*outcomes, *later.values()),
        error=second.error if first.error else None,
        notes=tuple(dict.fromkeys(first.notes + second.notes)),
        elapsed_s=first.elapsed_s + AGAIN_AFTER_S + second.elapsed_s,
    )
