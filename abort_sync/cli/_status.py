"""The exit statuses, as `abort-sync --help` documents them."""

from __future__ import annotations

WELL = 0
NOT_WELL = 1
MISUSE = 2
NOTHING_TRIED = 3
INTERRUPTED = 130
