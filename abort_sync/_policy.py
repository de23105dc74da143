"""What is tried again, and how long to wait before: the only user of ``tenacity``. This room knows nothing of workers.

tenacity's strategies decide when to stop and how long to wait; its loop is not used, since that keeps its state by thread, and an attempt
here may be made by another thread than the one before.
"""

from __future__ import annotations

import email.utils
import time
from typing import Any, Callable, Optional, cast

import tenacity as _tenacity

from ._answer import Answer

_WAIT = _tenacity.wait_exponential(multiplier=0.1, max=2.0) + _tenacity.wait_random(0.0, 0.1)


def may_repeat_abort(answer: Answer) -> bool:
    """Tell whether an abort or a look is worth another attempt: no whole answer, 408, 429, or 5xx but 501."""
    status = answer.status
    if not answer.is_whole or status is None:
        return True
    return status in (408, 429) or (500 <= status < 600 and status != 501)


def may_repeat_flush(answer: Answer) -> bool:
    """Tell whether a flush may be repeated: only if it surely did not arrive, since a second one would cut into the teardown."""
    return answer.status in (429, 502, 503) if answer.is_whole else not answer.is_sent


class Policy:
    """Decides about the next attempt.

    Args:
        attempts: Attempts in all, the first included.
        may_repeat: Tells whether an answer allows another attempt.
    """

    def __init__(self, attempts: int, may_repeat: Callable[[Answer], bool]) -> None:
        self._stop = _tenacity.stop_after_attempt(attempts)
        self._may_repeat = may_repeat

    def pause(self, answer: Answer, number: int, left: float) -> Optional[float]:
        """Return the seconds to wait before the next attempt, or None for no further one.

        A wait that would cross the deadline is not begun.

        Args:
            answer: The last answer.
            number: Which attempt brought it, from 1.
            left: Seconds to the deadline.
        """
        if not self._may_repeat(answer):
            return None
        state = _tenacity.RetryCallState(cast(Any, None), None, (), {})
        state.attempt_number = number
        state.set_result(answer)
        if self._stop(state):
            return None
        asked = retry_after(answer.header("retry-after"))
        pause = asked if asked is not None and asked < left else _WAIT(state)
        return pause if pause < left else None


def retry_after(text: Optional[str]) -> Optional[float]:
    """Return the seconds that a ``Retry-After`` header asks for, or None where it asks for nothing usable."""
    if text is None or len(text) > 64:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = email.utils.parsedate_to_datetime(text)
        return max(0.0, at.timestamp() - time.time())
    except (TypeError, ValueError, OverflowError, OSError, IndexError):
        return None
