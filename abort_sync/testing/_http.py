"""A bare threaded HTTP/1.1 server on loopback that records what it gets and misbehaves when told to.

One thread a connection and one request a connection (`Connection: close`). This room knows HTTP and behaviours; what a
router, a worker or an agent server answers is in the rooms that build on it. Linux, as the engines.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ._behaviour import Behaviour, Reply
from ._connection import Connection, Gone, read_request

ServerT = TypeVar("ServerT", bound="LoopbackServer")


@dataclass(frozen=True)
class Received:
    """One request as a server received it.

    Attributes:
        method: `"POST"`, `"GET"`, ...
        path: The path without its query.
        query: What follows the `?`, or an empty string.
        headers: Names in lower case; of repeated headers the last one.
        body: The body, empty if there was none.
        at: When it had been read in full: seconds on `time.monotonic()`.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    at: float = field(repr=False)

    @property
    def json(self) -> Any:
        """The body read as JSON; raises `ValueError` if it is none."""
        return json.loads(self.body)


class LoopbackServer:
    """One server on 127.0.0.1; subclasses say in `respond` what it answers when it is well.

    The port is reserved from the start to `close()`: while the server is dead nobody else can be given its port.

    Args:
        name: Its threads are named `local-fleet-<name>`, so that a leak test can leave them out.
        tls: A server-side context makes it speak HTTPS.
    """

    def __init__(self, name: str, *, tls: ssl.SSLContext | None = None) -> None:
        self._name = f"local-fleet-{name}"
        self._tls = tls
        self._changed = threading.Condition()  # guards all state here and in subclasses
        self._received: list[Received] = []
        self._script: dict[str | None, Behaviour | deque[Behaviour]] = {}
        self._connections: dict[Connection, threading.Thread] = {}
        self._accepted = 0
        self._down = threading.Event()
        self._down.set()
        self._reserved = _bound_socket(0)
        self._port: int = self._reserved.getsockname()[1]
        self.revive()

    @property
    def url(self) -> str:
        """Its base URL, without a slash at the end."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    @property
    def requests(self) -> tuple[Received, ...]:
        """All requests so far, in the order in which they had been read."""
        with self._changed:
            return tuple(self._received)

    @property
    def accepted(self) -> int:
        """How many connections were accepted so far, those without a request included."""
        return self._accepted

    @property
    def is_alive(self) -> bool:
        """Whether the port is open."""
        return not self._down.is_set()

    def respond(self, request: Received, connection: Connection) -> Reply:
        """Answer one request; may take its time by `connection.pause`."""
        raise NotImplementedError

    def wait_until(self: ServerT, predicate: Callable[[ServerT], bool], *, timeout_s: float = 10.0) -> None:
        """Wait until `predicate(self)` holds; it is looked at whenever something changes, without polling.

        Raises:
            TimeoutError: It did not hold within `timeout_s` seconds; the text names the requests so far.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(self), timeout_s):
                seen = ", ".join(f"{one.method} {one.path}" for one in self._received) or "nothing"
                raise TimeoutError(f"{self.url} did not get there within {timeout_s} s; it received: {seen}")

    def wait_for(self, count: int, *, path: str | None = None, timeout_s: float = 10.0) -> tuple[Received, ...]:
        """Wait until `count` requests (for `path`, if given) have been received, and return all there are by then.

        Raises:
            TimeoutError: Fewer came within `timeout_s` seconds.
        """

        def matching(server: LoopbackServer) -> tuple[Received, ...]:
            return tuple(one for one in server.requests if path in (None, one.path))

        self.wait_until(lambda server: len(matching(server)) >= count, timeout_s=timeout_s)
        return matching(self)

    def behave(self, behaviour: Behaviour | Iterable[Behaviour] | None, *, path: str | None = None) -> None:
        """Say how the next requests are answered.

        Args:
            behaviour: One behaviour holds until the next `behave`; several are used up, one a request, and then the
                server is normal again; None makes it normal at once.
            path: Only requests for this path; it goes before what is said for all paths. None means all requests, and
                then None as the behaviour also takes back what was said for single paths. A dead server told to behave
                for all paths is opened again.

        Raises:
            ValueError: `refuse()` for one path or as one of several: a closed port cannot tell requests apart.
        """
        script = behaviour if behaviour is None or isinstance(behaviour, Behaviour) else deque(behaviour)
        kinds = [one.kind for one in (script if isinstance(script, deque) else [script]) if one is not None]
        if "refuse" in kinds:
            if path is not None or isinstance(script, deque):
                raise ValueError("refuse() closes the port: it holds for the whole server, alone and without path=")
            self.kill()
            return
        with self._changed:
            if script is not None:
                self._script[path] = script
            elif path is None:
                self._script.clear()
            else:
                self._script.pop(path, None)
        if path is None:
            self.revive()

    def kill(self) -> None:
        """Close the port and cut all connections, as a process that dies would; what was running is lost."""
        with self._changed:
            if self._down.is_set():
                return
            self._down.set()
            # shutdown, not only close: a forked child may hold the same socket open
            self._listener.shutdown(socket.SHUT_RDWR)
            for connection in self._connections:
                connection.cut()
            self._lose_work()
            self._changed.notify_all()

    def revive(self) -> None:
        """Open the port again, the same one, with nothing running; does nothing if it is open."""
        with self._changed:
            if not self._down.is_set():
                return
            self._listener = _bound_socket(self._port)
            self._listener.listen(1024)
            self._down = threading.Event()
            self._accepting = self._start_thread(self._accept, self._listener, self._down)

    def close(self, *, timeout_s: float = 1.0) -> None:
        """End the server and wait up to `timeout_s` seconds for its threads; it cannot be revived afterwards."""
        self.kill()
        self._reserved.close()
        deadline = time.monotonic() + timeout_s
        with self._changed:
            threads = [self._accepting, *self._connections.values()]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _lose_work(self) -> None:
        """Forget what was running; called with the lock held when the server dies."""

    def _start_thread(self, target: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, name=self._name, daemon=True)
        thread.start()
        return thread

    def _accept(self, listener: socket.socket, down: threading.Event) -> None:
        with listener:  # closed here: a descriptor must not be closed under a thread that waits on it
            while True:
                try:
                    connection = Connection(listener.accept()[0], down, self._tls)
                except OSError:  # shut down, or no descriptor left just now
                    if down.wait(0.01):
                        return
                    continue
                with self._changed:
                    if down.is_set():
                        connection.close()
                        return
                    self._accepted += 1
                    self._connections[connection] = self._start_thread(self._serve, connection)
                    self._changed.notify_all()

    def _serve(self, connection: Connection) -> None:
        try:
            request = Received(*read_request(connection), time.monotonic())
            behaviour = self._record(request)
            if behaviour is None or behaviour.obey:
                reply = self.respond(request, connection)
            if behaviour is None:
                connection.reply(reply)
            else:
                connection.play(behaviour)
        except Gone:
            pass
        finally:
            with self._changed:  # nobody may cut a connection while its descriptor is being closed
                connection.close()
                del self._connections[connection]

    def _record(self, request: Received) -> Behaviour | None:
        with self._changed:
            self._received.append(request)
            self._changed.notify_all()
            for key in (request.path, None):
                script = self._script.get(key)
                if isinstance(script, deque):
                    if script:
                        return script.popleft()
                elif script is not None:
                    return script
            return None


def _bound_socket(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # lets the reservation and the listener share the port
    bound.bind(("127.0.0.1", port))
    return bound
