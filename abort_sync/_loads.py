"""Read "how many requests are still in there" from a worker's answer. This room sends nothing.

Sources: SGLang 0.5.23, measured and read: ``GET /v1/loads?include=core`` answers ``{"loads": [{"dp_rank", "timestamp",
"num_running_reqs", "num_waiting_reqs", "num_used_tokens", "num_waiting_uncached_tokens", ...}]}``, one entry a data-parallel
rank. A request in its chunked prefill and in its first decode steps is in neither count, and only the tokens tell of it. The
answer is a snapshot that stands still while a batch runs; ``timestamp`` tells when it was made. SGLang 0.5.3 and later 0.5.x:
``GET /get_load`` answers a list with ``num_reqs``, ``num_waiting_reqs``. 0.4.10 gave one number of tokens: not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ._answer import NotJson, read_json

PATHS = ("/v1/loads?include=core", "/get_load")
"""Where a load can be read, the newest first; the next one is asked where a server has no such route."""

MAX_LOAD_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Load:
    """What a worker says it has, all its data-parallel ranks together.

    Attributes:
        running: Requests that are being decoded.
        waiting: Requests that wait for a slot.
        tokens: Tokens in use or waiting for prefill, where the server tells; a request can show only here.
        stamps: When each rank made its snapshot, on the server's own clock; empty where it does not tell.
    """

    running: int
    waiting: int
    tokens: int = 0
    stamps: tuple[float, ...] = ()

    @property
    def remaining(self) -> int:
        """How many requests are in there at least: 1 where only tokens tell of one."""
        return max(self.running + self.waiting, 1 if self.tokens else 0)


def read_load(body: bytes) -> Optional[Load]:
    """Return the load in a worker's answer, or None where it cannot be read. Unreadable is never zero."""
    try:
        content = read_json(body)
    except NotJson:
        return None
    ranks = content.get("loads") if isinstance(content, Mapping) else content
    if not isinstance(ranks, list) or not ranks or not all(isinstance(rank, Mapping) for rank in ranks):
        return None
    running = waiting = tokens = 0
    stamps = []
    for rank in ranks:
        waits = _count(rank, "num_waiting_reqs")
        runs = _count(rank, "num_running_reqs")
        if runs is None:  # the older shape counts all in one
            every = _count(rank, "num_reqs")
            runs = every - (waits or 0) if every is not None else None
        if runs is None or waits is None:
            return None
        running += max(0, runs)
        waiting += waits
        tokens += (_count(rank, "num_used_tokens") or 0) + (_count(rank, "num_waiting_uncached_tokens") or 0)
        stamp = rank.get("timestamp")
        if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
            stamps.append(float(stamp))
    return Load(running, waiting, tokens, tuple(stamps))


def _count(rank: Mapping[str, Any], name: str) -> Optional[int]:
    value = rank.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
