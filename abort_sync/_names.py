"""Look up host names without waiting longer than a deadline. This room knows nothing of HTTP.

``getaddrinfo`` cannot be cut, so a name is looked up in a daemon thread: the one thing that may outlive a call, and it does
not hold the interpreter's exit. Where no thread can be started the look-up is made in place, and is unbounded.
"""

from __future__ import annotations

import _thread
import encodings.idna  # noqa: F401  (else imported by the first look-up, in a thread)
import socket
import threading
from typing import Any, Callable, Optional

Address = tuple[int, Any]
_SLICE_S = 0.1


class NameLookup:
    """One look-up, shared by everyone in a call who needs the same name.

    Args:
        host: The name.
        port: The port that its addresses get.
        slots: One is taken while it goes on.
    """

    def __init__(self, host: str, port: int, slots: threading.Semaphore) -> None:
        self._host, self._port, self._slots = host, port, slots
        self._ended = threading.Event()
        self._found: list[Address] = []
        self._error: Optional[Exception] = None

    def begin(self, left: Callable[[], float]) -> NameLookup:
        """Start looking, once there is a slot: look-ups that hang would else leave a thread for each of many names.

        Args:
            left: As ``wait``.

        Raises:
            TimeoutError: There was no slot in time.
        """
        while not self._slots.acquire(timeout=min(left(), _SLICE_S)):
            if left() <= 0:
                raise TimeoutError("too many names are being looked up already")
        try:
            _thread.start_new_thread(self._look, ())
        except RuntimeError:  # a thread limit, or the interpreter is ending
            self._look()
        return self

    def wait(self, left: Callable[[], float]) -> list[Address]:
        """Return the addresses.

        Args:
            left: Tells how many seconds may still be waited; asked again and again, 0 ends the wait.

        Raises:
            TimeoutError: No answer came in time.
            OSError: The name cannot be resolved.
            UnicodeError: The name cannot be encoded.
        """
        while not self._ended.wait(min(left(), _SLICE_S)):
            if left() <= 0:
                raise TimeoutError("the name was not resolved in time")
        if self._error is not None:
            raise self._error
        return self._found

    def _look(self) -> None:
        try:
            self._found = _addresses(self._host, self._port, 0)
        except Exception as why:
            self._error = why
        self._ended.set()
        self._slots.release()


def literal(host: str, port: int) -> Optional[list[Address]]:
    """Return the address that the host already is, or None if it is a name."""
    try:
        socket.inet_pton(socket.AF_INET, host)
        return [(socket.AF_INET, (host, port))]
    except (OSError, UnicodeError):
        pass
    try:
        return _addresses(host, port, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None


def _addresses(host: str, port: int, flags: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]
