"""One point on the monotonic clock. This room knows no other room."""

from __future__ import annotations

import time
from dataclasses import dataclass

__all__ = ["Deadline"]


@dataclass(frozen=True)
class Deadline:
    """A point on the monotonic clock, in seconds; only this travels inward from a caller's ``timeout_s``."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline that comes in so many seconds."""
        return cls(time.monotonic() + seconds)

    def left(self) -> float:
        """Return the seconds that are left, never below zero."""
        return max(0.0, self.at - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether it has come."""
        return time.monotonic() >= self.at

    def within(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and the one in so many seconds."""
        return Deadline(min(self.at, time.monotonic() + seconds))
