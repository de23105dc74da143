"""The socket of one attempt: it keeps its deadline inside the socket, and others can cut it. This room knows nothing of HTTP.

A ``Line`` holds the socket from before it connects until its own thread has closed it. Whoever wants it to end calls ``cut``,
which shuts the socket down; only the thread that uses it closes it, so no descriptor is closed under another's feet.
"""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Any, Callable, Optional, cast

from ._deadline import Deadline
from ._names import Address


class Line:
    """A connection that is opened, used and closed by one thread, and may be cut by any other.

    Attributes:
        limit: When the present phase must have ended.
        phase: What it is doing, for a person: "resolving", "connecting", ...
        is_sent: Whether a byte of the request may have left.
        is_cut: Whether somebody cut it.
        why: How that is put to a person.
    """

    __slots__ = ("limit", "phase", "is_sent", "is_cut", "why", "_sock", "_lock")

    def __init__(self, limit: Deadline) -> None:
        self.limit = limit
        self.phase = "starting"
        self.is_sent = False
        self.is_cut = False
        self.why = ""
        self._sock: Optional[socket.socket] = None
        self._lock = threading.Lock()

    def left(self) -> float:
        """Return the seconds that the phase may still take; 0 once it is cut."""
        return 0.0 if self.is_cut else self.limit.left()

    def arm(self, sock: socket.socket) -> None:
        """Give the socket what is left.

        Raises:
            socket.timeout: Nothing is left.
        """
        left = self.left()
        if left <= 0:
            raise socket.timeout("timed out")
        sock.settimeout(left)

    def hold(self, sock: socket.socket) -> None:
        """Take a socket, before it connects and again when TLS has taken it over.

        Raises:
            socket.timeout: The line is cut already; the socket is closed.
        """
        with self._lock:
            if self.is_cut:
                sock.close()
                raise socket.timeout("timed out")
            self._sock = sock

    def cut(self, why: str) -> None:
        """Wake whoever uses the socket; it stays theirs to close."""
        with self._lock:
            self.why, self.is_cut = self.why or why, True
            if self._sock is not None:
                try:
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
                except OSError:
                    pass  # not connected any more

    def close(self) -> None:
        """Close the socket; only for the thread that opened it."""
        with self._lock:
            if self._sock is not None:
                self._sock.close()
                self._sock = None


class KeptSocket(socket.socket):
    """A socket whose every read and write gets what is left of its line's limit."""

    line: Line

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        """Read, within the limit."""
        self.line.arm(self)
        return super().recv_into(*args, **kwargs)

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        """Write, within the limit."""
        self.line.arm(self)
        super().sendall(*args, **kwargs)


class KeptTlsSocket(ssl.SSLSocket):
    """The same, over TLS."""

    line: Line

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        """Read, within the limit."""
        self.line.arm(self)
        return super().recv_into(*args, **kwargs)

    def send(self, *args: Any, **kwargs: Any) -> int:
        """Write, within the limit; ``sendall`` comes through here too."""
        self.line.arm(self)
        return super().send(*args, **kwargs)


def connect(line: Line, resolve: Callable[[Callable[[], float]], list[Address]]) -> socket.socket:
    """Return a connected socket, held by the line.

    Each address of a name gets an even share of what is left when its turn comes, so a dead first one does not use up all.

    Raises:
        OSError: No address could be connected to; the last one's error.
    """
    line.phase = "resolving the name"
    addresses = resolve(line.left)
    line.phase = "connecting"
    for number, (family, address) in enumerate(addresses, 1):
        sock = KeptSocket(family, socket.SOCK_STREAM)
        sock.line = line
        line.hold(sock)
        try:
            line.arm(sock)
            sock.settimeout(line.left() / (len(addresses) - number + 1) or 0.001)
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError:
            line.close()
            if number == len(addresses) or line.left() <= 0:
                raise
    raise OSError("the name has no address")


def secure(line: Line, sock: socket.socket, context: ssl.SSLContext, host: str) -> socket.socket:
    """Return the socket under TLS, held by the line from before the handshake.

    Raises:
        OSError: The handshake failed (``ssl.SSLError`` is one).
    """
    line.phase = "in the TLS handshake"
    wrapped = cast(KeptTlsSocket, context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False))
    wrapped.line = line
    line.hold(wrapped)
    line.arm(wrapped)
    wrapped.do_handshake()
    return wrapped


def kept_context(verify: bool | str, default_bundle: str) -> ssl.SSLContext:
    """Return a TLS client context whose sockets keep their line's limit.

    Args:
        verify: False checks nothing; True checks against ``default_bundle``; else the path of a bundle or directory.
        default_bundle: Where the usual authorities are.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = KeptTlsSocket
    if verify is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    path = default_bundle if verify is True else verify
    try:
        context.load_verify_locations(cafile=path)
    except IsADirectoryError:
        context.load_verify_locations(capath=path)
    return context
