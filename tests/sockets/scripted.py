"""A server on loopback that plays its part byte by byte: all that no well-written server would do."""

from __future__ import annotations

import atexit
import json
import socket
import ssl
import struct
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Callable, NamedTuple, Union

DATA = Path(__file__).parent / "data"
CERTIFICATE = DATA / "loopback.pem"
"""For 127.0.0.1 and localhost; it is its own authority, and nobody else's."""

Part = Callable[[socket.socket], object]
Act = Union[bytes, Part]
"""What is sent in answer to one request, or what is done on its connection; then the connection is closed."""


class Asked(NamedTuple):
    """One request as it came."""

    method: str
    target: str
    head: bytes
    body: bytes

    def values(self, name: str) -> list[str]:
        """Return every value of a header."""
        lines = [line.partition(b":") for line in self.head.split(b"\r\n")[1:]]
        return [value.strip().decode("latin-1") for key, _, value in lines if key.strip().lower() == name.lower().encode()]


class Scripted:
    """A server that answers by a script.

    Args:
        acts: One a request, in turn; the last one again and again.
        routes: By path, what goes before `acts`: one act, or several as `acts`.
        on_accept: Done on each connection before anything is read; nothing else happens on it if this returns True.
        tls: A server-side context makes it speak HTTPS.
    """

    def __init__(
        self,
        *acts: Act,
        routes: Mapping[str, Act | Sequence[Act]] | None = None,
        on_accept: Part | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._acts: dict[str | None, list[Act]] = {None: list(acts) or [answer(418)]}
        for path, act in (routes or {}).items():
            self._acts[path] = [act] if isinstance(act, bytes) or callable(act) else list(act)
        self._on_accept, self._tls = on_accept, tls
        self._changed = threading.Condition()
        self.asked: list[Asked] = []
        self.accepted = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(30.0)
        self._listener.close()
        with self._changed:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30.0)

    @property
    def targets(self) -> list[str]:
        """What was asked for, as `"GET /workers"`."""
        return [f"{one.method} {one.target}" for one in self.asked]

    def wait_for(self, count: int, timeout_s: float = 30.0) -> None:
        """Wait until so many requests have come; fails the test if they do not."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= count, timeout_s), f"{len(self.asked)} of {count} requests came"

    def settle(self, timeout_s: float = 30.0) -> None:
        """Wait until no connection is open any more; fails the test if one stays."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._open, timeout_s), f"{len(self._open)} connections are still open"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._changed:
                self.accepted += 1
                self._open.add(connection)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError):
            if self._on_accept is None or self._on_accept(connection) is not True:
                self._talk(connection)
        with self._changed:
            self._open.discard(connection)
            connection.close()
            self._changed.notify_all()

    def _talk(self, plain: socket.socket) -> None:
        connection = plain
        if self._tls is not None:
            # a second descriptor, so that the first one stays for __exit__ to shut down
            connection = self._tls.wrap_socket(plain.dup(), server_side=True)
        with connection:
            asked = read_request(connection)
            with self._changed:
                self.asked.append(asked)
                acts = self._acts.get(asked.target.partition("?")[0], self._acts[None])
                act = acts.pop(0) if len(acts) > 1 else acts[0]
                self._changed.notify_all()
            if isinstance(act, bytes):
                connection.sendall(act)
            else:
                act(connection)


def read_request(connection: socket.socket) -> Asked:
    """Read one request; raises ValueError where the client leaves before it is whole."""
    with connection.makefile("rb") as file:
        lines = []
        while (line := file.readline()) != b"\r\n":
            if not line.endswith(b"\n"):
                raise ValueError("no whole request")
            lines.append(line)
        method, target, _ = lines[0].decode("latin-1").split(" ", 2)
        asked = Asked(method, target, b"".join(lines), b"")
        length = int((asked.values("content-length") or ["0"])[0])
        return asked._replace(body=file.read(length))


def answer(status: int = 200, body: bytes | str = b"", *headers: str, length: int | None = None) -> bytes:
    """Return a whole answer; `length` states another length than the body has."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Scripted", *headers, f"content-length: {len(data) if length is None else length}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + data


def json_answer(value: Any, status: int = 200) -> bytes:
    """Return an answer with JSON in it."""
    return answer(status, json.dumps(value), "content-type: application/json")


def listing(*urls: str) -> dict[str, bytes]:
    """Return the routes of a router that lists these workers."""
    return {"/workers": json_answer({"workers": [{"url": url} for url in urls]})}


def hang(connection: socket.socket) -> None:
    """Do nothing until the other side has gone."""
    while connection.recv(65536):
        pass


def until(event: threading.Event, data: bytes) -> Part:
    """Return what sends `data` once `event` is set."""

    def play(connection: socket.socket) -> None:
        assert event.wait(60.0)
        connection.sendall(data)

    return play


def drip(data: bytes, interval_s: float = 0.05, at_once: bytes = b"") -> Part:
    """Return what sends `at_once`, then `data` byte by byte, over and over for as long as anybody listens."""

    def play(connection: socket.socket) -> None:
        connection.sendall(at_once)
        pause = threading.Event()
        while True:
            for byte in data:
                connection.sendall(bytes([byte]))
                pause.wait(interval_s)

    return play


def endless(data: bytes, at_once: bytes = b"") -> Part:
    """Return what sends `at_once`, then `data` over and over, as fast as it is read."""

    def play(connection: socket.socket) -> None:
        connection.sendall(at_once)
        while True:
            connection.sendall(data)

    return play


def reset(connection: socket.socket) -> None:
    """Reset the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


_HELD = ExitStack()
atexit.register(_HELD.close)


def closed_port() -> int:
    """Return a port on which nobody listens; it stays taken, else a server of another test could get it."""
    held = _HELD.enter_context(socket.socket())
    held.bind(("127.0.0.1", 0))
    return int(held.getsockname()[1])


def server_context(certificate: Path = CERTIFICATE) -> ssl.SSLContext:
    """Return what a server needs to speak TLS with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
