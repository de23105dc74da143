"""A bare threaded HTTP/1.1 server on loopback that records what it gets and misbehaves when told to.

Each thread accepts a connection, serves one request on it (`Connection: close`) and accepts again; there is always one
more thread than there are connections. This room knows HTTP and behaviours; what a router, a worker or an agent server
answers is in the rooms that build on it. Linux, as the engines.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from ._behaviour import Behaviour, Reply
from ._connection import Connection, Gone
from ._received import Received, read_request

ServerT = TypeVar("ServerT", bound="LoopbackServer")
_MOST_IDLE = 4


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
        self._connections: set[Connection] = set()
        self._threads: list[threading.Thread] = []
        self._accepted = 0
        self._reserved = _bound_socket(0)
        self._port: int = self._reserved.getsockname()[1]
        self._life = _Life(self._port)
        self._start_thread(self._life)

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
        return not self._life.over.is_set()

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
            if not self.is_alive:
                return
            self._life.over.set()
            # shutdown, not only close: it wakes those who accept, and a forked child may hold the same socket open
            self._life.listener.shutdown(socket.SHUT_RDWR)
            for connection in self._connections:
                connection.cut()
            self._lose_work()
            self._changed.notify_all()

    def revive(self) -> None:
        """Open the port again, the same one, with nothing running; does nothing if it is open."""
        with self._changed:
            if not self.is_alive:
                self._life = _Life(self._port)
                self._start_thread(self._life)

    def close(self, *, timeout_s: float = 1.0) -> None:
        """End the server and wait up to `timeout_s` seconds for its threads; it cannot be revived afterwards."""
        self.kill()
        self._reserved.close()
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _lose_work(self) -> None:
        """Forget what was running; called with the lock held when the server dies."""

    def _start_thread(self, life: _Life) -> None:
        thread = threading.Thread(target=self._live, args=(life,), name=self._name, daemon=True)
        self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        life.threads += 1
        life.idle += 1
        thread.start()

    def _live(self, life: _Life) -> None:
        try:
            while (connection := self._accept(life)) and self._serve(connection, life):
                pass
        finally:
            with self._changed:
                life.threads -= 1
                if not life.threads:  # a descriptor must not be closed under a thread that accepts on it
                    life.listener.close()

    def _accept(self, life: _Life) -> Connection | None:
        while True:
            try:
                connection = Connection(life.listener.accept()[0], life.over, self._tls)
            except OSError:  # shut down, or no descriptor left just now
                if life.over.wait(0.01):
                    return None
                continue
            with self._changed:
                if life.over.is_set():
                    connection.close()
                    return None
                life.idle -= 1
                if not life.idle:
                    self._start_thread(life)
                self._accepted += 1
                self._connections.add(connection)
                self._changed.notify_all()
                return connection

    def _serve(self, connection: Connection, life: _Life) -> bool:
        """Serve one request, and say whether this thread shall accept again."""
        stays = False
        try:
            with suppress(Gone):
                self._answer(connection)
            stays = True
        finally:
            with self._changed:  # nobody may cut a connection while its descriptor is being closed
                connection.close()
                self._connections.remove(connection)
                stays = stays and life.idle < _MOST_IDLE
                life.idle += stays
        return stays

    def _answer(self, connection: Connection) -> None:
        request = read_request(connection)
        behaviour = self._record(request)
        if behaviour is None or behaviour.obey:
            reply = self.respond(request, connection)
        if behaviour is None:
            connection.reply(reply)
        else:
            connection.play(behaviour)

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


class _Life:
    """From one opening of the port to its closing; a thread belongs to one life."""

    def __init__(self, port: int) -> None:
        self.over = threading.Event()
        self.threads = 0
        self.idle = 0  # threads that accept, or are about to
        self.listener = _bound_socket(port)
        self.listener.listen(1024)


def _bound_socket(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # lets the reservation and the listener share the port
    bound.bind(("127.0.0.1", port))
    return bound
