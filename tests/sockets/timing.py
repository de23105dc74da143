"""How late a call is back."""

from __future__ import annotations

import time
from typing import Any, Callable

from abort_sync import Limits, Report

WIDE = Limits(connect_s=100.0, read_s=100.0)
"""Limits that end nothing: what ends is ended by the deadline."""


def timed(call: Callable[..., Report], *args: Any, timeout_s: float = 1.5) -> Report:
    """Make a call that its deadline must end, and check that it is back 0.5 s after it (a stalled machine gets 3 s)."""
    began = time.monotonic()
    report = call(*args, timeout_s=timeout_s)
    late = time.monotonic() - began - timeout_s
    print(f"{late:+.3f} s after the deadline")
    assert -0.3 < late < 3.0
    return report
