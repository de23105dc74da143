"""Read one HTTP/1.1 request from a connection, as a frozen value."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, BinaryIO

from ._behaviour import Reply
from ._connection import Connection, Gone, as_gone

_LINE_LIMIT = 65536


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


def read_request(connection: Connection) -> Received:
    """Read one request.

    Raises:
        Gone: The client left before the request was whole, or it does not speak HTTP/1 (answered 400).
    """
    with as_gone(), connection.read_file() as file:
        words = file.readline(_LINE_LIMIT).decode("latin-1").split()
        if not words:
            raise Gone
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            connection.reply(Reply(400))
            raise Gone
        headers: dict[str, str] = {}
        while line := _line(file):
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b"".join(_chunks(file))
        else:
            body = _exactly(file, int(headers.get("content-length", "0")))
    path, _, query = words[1].partition("?")
    return Received(words[0], path, query, MappingProxyType(headers), body, time.monotonic())


def _line(file: BinaryIO) -> str:
    line = file.readline(_LINE_LIMIT)
    if not line.endswith(b"\n"):
        raise Gone
    return line.decode("latin-1").strip()


def _exactly(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise Gone
    return data


def _chunks(file: BinaryIO) -> list[bytes]:
    chunks = []
    while length := int(_line(file).partition(";")[0], 16):
        chunks.append(_exactly(file, length))
        _line(file)
    while _line(file):  # trailers
        pass
    return chunks
