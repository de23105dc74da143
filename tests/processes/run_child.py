"""Start a child interpreter on one of the `child_*.py` scripts beside this file, and read what it saw."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Ended:
    """What became of a child: what it told, its exit code, all that it printed to stderr, and when it had ended."""

    seen: dict[str, Any]
    code: int
    stderr: str
    at: float


class Child:
    """A child at work on one case; `urls` are what its client is made with."""

    def __init__(self, script: str, case: str, urls: Sequence[str], *options: str) -> None:
        # A socket that nobody closed would be told on stderr, and every test looks at that.
        command = [sys.executable, *options, "-W", "error::ResourceWarning", str(HERE / f"{script}.py"), case, *urls]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    def go(self) -> None:
        """Let it go on from `child.wait_for_go()`."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> float:
        """Send it a signal; returns when, on the monotonic clock that all processes share."""
        at = time.monotonic()
        self._process.send_signal(number)
        return at

    def end(self, *, timeout_s: float = 60.0) -> Ended:
        """Wait for its end."""
        try:
            out, err = self._process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            out, err = self._process.communicate()
            raise AssertionError(f"the child had not ended after {timeout_s} s; it printed:\n{out}\n{err}") from None
        seen: dict[str, Any] = {}
        for line in out.splitlines():
            seen.update(json.loads(line))
        return Ended(seen, self._process.returncode, err, time.monotonic())

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()


@contextlib.contextmanager
def child(script: str, case: str, urls: Sequence[str], *options: str) -> Iterator[Child]:
    """A child that is gone after the block."""
    one = Child(script, case, urls, *options)
    try:
        yield one
    finally:
        one.kill()


def run(script: str, case: str, urls: Sequence[str], *options: str) -> dict[str, Any]:
    """Run a child to its end; it must have printed no error, and ended well."""
    with child(script, case, urls, *options) as one:
        ended = one.end()
    assert (ended.code, ended.stderr) == (0, ""), ended
    return ended.seen
