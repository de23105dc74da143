"""One HTTP/1.1 exchange over a line: ``http.client`` on a socket that keeps its deadline and can be cut.

Where a whole call's attempts share something, a look-up or a TLS context, the ``Dialer`` has it. This room knows no library but the
standard one, and nothing of orders.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Any, Callable, Optional, Union
from urllib.parse import urlsplit

from ._deadline import Deadline
from ._names import NameLookup, literal
from ._sockets import Line, connect, kept_context, secure


class Dialer:
    """Opens sockets for one call.

    Args:
        ca_bundle: The path of the authorities that ``verify=True`` trusts.
        lookups: At most so many names are looked up at once.
    """

    def __init__(self, ca_bundle: str, lookups: int) -> None:
        self._ca_bundle, self._slots = ca_bundle, threading.Semaphore(lookups)
        self._contexts: dict[Union[bool, str], ssl.SSLContext] = {}
        self._lookups: dict[tuple[str, int], NameLookup] = {}

    def open(self, line: Line, host: str, port: int) -> socket.socket:
        """Return a connected socket."""

        def resolve(left: Any) -> Any:
            found = literal(host, port)
            if found is None:
                lookup = self._lookups.get((host, port))
                if lookup is None:  # two threads may look the same name up; both are right
                    lookup = self._lookups[host, port] = NameLookup(host, port, self._slots).begin(left)
                try:
                    found = lookup.wait(left)
                except socket.gaierror:  # the next attempt asks again; a look-up that goes on is waited for again
                    self._lookups.pop((host, port), None)
                    raise
            return found

        return connect(line, resolve)

    def secured(self, line: Line, sock: socket.socket, verify: Union[bool, str, None], host: str) -> socket.socket:
        """Return the socket under TLS."""
        how = True if verify is None else verify
        context = self._contexts.get(how)
        if context is None:
            context = self._contexts[how] = kept_context(how, self._ca_bundle)
        return secure(line, sock, context, host)


class _Response(http.client.HTTPResponse):
    """An answer that does not take a head cut off by the end of the connection for a whole one."""

    def begin(self) -> None:
        """Read the head."""
        whole, self.fp = self.fp, _Head(self.fp)  # type: ignore[assignment]  # reads as a file does, as far as it is used
        super().begin()
        if self.fp is not None:
            self.fp = whole


class _Head:
    """Reads lines, and raises where a line ends in the middle."""

    def __init__(self, fp: Any) -> None:
        self._fp = fp
        self.close, self.flush = fp.close, fp.flush

    def readline(self, limit: int) -> bytes:
        line: bytes = self._fp.readline(limit)
        if not line.endswith(b"\n") and len(line) < limit:
            raise http.client.RemoteDisconnected("the connection was closed before the answer's head was complete")
        return line


class Connection(http.client.HTTPConnection):
    """A plain connection over a line, under TLS and through a proxy where asked; good for one exchange.

    Args:
        dialer: Opens the socket.
        line: What others see of the attempt.
        host: The server's host.
        port: Its port; None for the scheme's usual one.
        is_tls: Whether to speak TLS with it.
        verify: How its certificate is checked: True or None, False or a path.
    """

    response_class = _Response

    def __init__(self, dialer: Dialer, line: Line, host: str, port: Optional[int], is_tls: bool, verify: Any) -> None:
        self.default_port = 443 if is_tls else 80
        super().__init__(host, port or self.default_port)
        self._dialer, self._line, self._is_tls, self._verify, self._name = dialer, line, is_tls, verify, host
        self._dial = (host, port or self.default_port)
        self._is_tunnelled = False
        self._held = b""

    def go_through(self, proxy: str, headers: Mapping[str, str]) -> None:
        """Connect to a proxy instead, and for TLS ask it for a tunnel."""
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if parts.scheme != "http" or not parts.hostname:
            raise OSError(f"proxies of the kind {parts.scheme}:// are not supported: use an http:// proxy, or trust_env=False")
        self._dial = (parts.hostname, parts.port or 80)
        if self._is_tls:
            host, port = self.host, self.port
            self.host, self.port = self._dial
            self.set_tunnel(host, port, headers)
            self._is_tunnelled = True

    def exchange(
        self, method: str, url: str, body: Any, headers: Mapping[str, str], limit: Callable[[], Deadline]
    ) -> http.client.HTTPResponse:
        """Send a request and return the answer with its body unread.

        Args:
            method: The method.
            url: What stands in the request line.
            body: The body, or None.
            headers: The headers.
            limit: When the whole answer must have come; asked once the connection stands.
        """
        self.connect()
        self._line.limit = limit()
        self.request(method, url, body=body, headers=dict(headers))
        assert self.sock is not None
        self._line.is_sent = True
        self.sock.sendall(self._held)  # head and body as one: a packet and a system call less a target
        self._line.phase = "waiting for the answer"
        return self.getresponse()

    def connect(self) -> None:
        """Open the line."""
        self.sock = self._dialer.open(self._line, *self._dial)
        if self._is_tls:
            if self._is_tunnelled:
                self._line.phase = "asking the proxy for a tunnel"
                self._tunnel()  # type: ignore[attr-defined]  # as urllib3 does; a test over a proxy tells when it changes
            self.sock = self._dialer.secured(self._line, self.sock, self._verify, self._name)
        self._line.phase = "sending the request"

    def send(self, data: Any) -> None:
        """Hold the request until it is whole; a request for a tunnel goes out at once."""
        assert self.sock is not None
        if self._line.phase == "sending the request":
            self._held += data
        else:
            self.sock.sendall(data)
