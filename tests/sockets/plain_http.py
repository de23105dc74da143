"""The plainest HTTP client, for tests of servers: one call on a fresh connection."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """One whole answer; header names are in lower case."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def address(url: str) -> tuple[str, int]:
    """Return host and port of `url`."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def call(
    url: str,
    body: Any = None,
    *,
    method: str | None = None,
    headers: dict[str, str] | None = None,
    timeout_s: float = 30.0,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """GET `url`, or POST `body` (as JSON unless it is bytes) to it."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    if tls is None:
        connection = http.client.HTTPConnection(*address(url), timeout=timeout_s)
    else:
        connection = http.client.HTTPSConnection(*address(url), timeout=timeout_s, context=tls)
    with closing(connection):
        target = urlsplit(url)._replace(scheme="", netloc="").geturl()
        connection.request(method or ("GET" if data is None else "POST"), target, data, headers or {})
        response = connection.getresponse()
        return Answer(response.status, response.read(), {name.lower(): value for name, value in response.getheaders()})


def raw(url: str, request: bytes) -> socket.socket:
    """Connect to the server of `url`, send `request` as it stands, and return the socket."""
    connection = socket.create_connection(address(url), timeout=30.0)
    connection.sendall(request)
    return connection


def read_all(connection: socket.socket) -> bytes:
    """Read until the other side closes."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)
