"""One accepted connection: answer or misbehave on it, and be cut from another thread."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from contextlib import suppress
from typing import BinaryIO, NoReturn

from ._behaviour import Behaviour, Reply


class Gone(Exception):
    """Raised when the client has left, has sent no HTTP, or the server is going down: the connection is over."""


class Connection:
    """One client of one loopback server.

    Args:
        accepted: The socket as accepted.
        down: Set when the server goes down; pauses end then.
        tls: Server-side context, or None for plain HTTP.
    """

    def __init__(self, accepted: socket.socket, down: threading.Event, tls: ssl.SSLContext | None) -> None:
        self._down = down
        self._is_reset = False
        self._socket = accepted
        if tls is not None:
            self._socket = tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)

    def pause(self, seconds: float, until: threading.Event | None = None) -> bool:
        """Wait `seconds`, or less if `until` is set or the server goes down.

        Whoever passes `until` sets it when the server goes down.

        Returns:
            Whether `until` was set.

        Raises:
            Gone: The server is going down.
        """
        is_set = (until or self._down).wait(seconds)
        if self._down.is_set():
            raise Gone
        return is_set

    def has_client(self) -> bool:
        """Whether the client is still there; a client that has closed its sending side counts as gone."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except ValueError:  # TLS cannot peek
            return True
        except OSError:
            return False

    def read_file(self) -> BinaryIO:
        """Return a buffered reader of what the client sends."""
        if isinstance(self._socket, ssl.SSLSocket):
            with as_gone():
                self._socket.do_handshake()
        return self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        """Send all of `data`; raises `Gone` when that is not possible any more."""
        with as_gone():
            self._socket.sendall(data)

    def reply(self, reply: Reply) -> None:
        """Send one whole answer."""
        self.send(reply.head(len(reply.body)) + reply.body)

    def play(self, behaviour: Behaviour) -> None:
        """Misbehave; returns when there is nothing more to do on this connection."""
        reply, kind = behaviour.reply, behaviour.kind
        if kind == "answer":
            self.reply(reply)
        elif kind == "hang":
            self._hang()
        elif kind == "reset":
            self._reset()
        elif kind == "drip_headers":
            self._drip(reply.head(0), behaviour.interval_s)
        elif kind == "drip_body":
            self.send(reply.head(len(reply.body)))
            self._drip(reply.body, behaviour.interval_s)
        elif kind == "cut_body":
            self.send(reply.head(len(reply.body) + 1) + reply.body)
        else:  # endless_body
            self.send(reply.head(None))
            while True:
                self.send(reply.body)

    def cut(self) -> None:
        """End the connection from another thread; wakes whoever reads or writes on it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it; nobody may use it afterwards."""
        if not self._is_reset:
            self.cut()  # a forked child may hold the same socket open
        self._socket.close()

    def _hang(self) -> NoReturn:
        with as_gone():
            while self._socket.recv(65536):
                pass
        raise Gone

    def _reset(self) -> None:
        # Lingering for zero seconds makes close() send RST; a shutdown before it would send FIN
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._is_reset = True

    def _drip(self, data: bytes, interval_s: float) -> None:
        self.send(data[:1])
        for index in range(1, len(data)):
            self.pause(interval_s)
            self.send(data[index : index + 1])


class as_gone:
    """Turn what the operating system says of a lost connection into `Gone`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (OSError, ValueError)):
            raise Gone from error
