"""How a loopback server may misbehave: a small vocabulary of frozen values.

This room knows bytes and pauses; it knows nothing of routers, workers or agent servers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import responses
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One HTTP answer.

    Attributes:
        status: The HTTP status, 100 to 599.
        body: The body as sent.
        headers: Pairs of name and value; `Content-Length` and `Connection: close` are added when it is sent.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of_json(cls, value: Any, status: int = 200) -> Reply:
        """Make an answer whose body is `value` as JSON."""
        return cls(status, json.dumps(value).encode(), (("content-type", "application/json"),))

    def head(self, length: int | None) -> bytes:
        """Return the status line and the headers; `length` None leaves `Content-Length` out."""
        lines = [f"HTTP/1.1 {self.status} {responses.get(self.status, '')}", *(f"{name}: {value}" for name, value in self.headers)]
        if length is not None:
            lines.append(f"content-length: {length}")
        return ("\r\n".join([*lines, "connection: close"]) + "\r\n\r\n").encode("latin-1")


@dataclass(frozen=True)
class Behaviour:
    """What a server does in place of its normal answer; make one by the methods below.

    `refuse` closes the port; all others read the request first. Of these `hang` never answers, `reset` resets the
    connection, `answer`, `redirect`, `wrong_json` and `html` answer at once, and `drip_headers`, `drip_body`, `cut_body`
    and `endless_body` begin an answer of 200 that comes slowly, stops short or never ends.

    With `obey=True` the server does what was asked (an abort ends its generations) before it misbehaves: the request was
    delivered and only its answer is lost.
    """

    kind: str
    reply: Reply = Reply()
    interval_s: float = 0.0
    obey: bool = False

    @classmethod
    def refuse(cls) -> Behaviour:
        """Close the port. Holds for the whole server, until it is told to behave otherwise."""
        return cls("refuse")

    @classmethod
    def hang(cls, *, obey: bool = False) -> Behaviour:
        """Read the request and never answer; the connection stays open until the client or the fleet closes it."""
        return cls("hang", obey=obey)

    @classmethod
    def reset(cls, *, obey: bool = False) -> Behaviour:
        """Read the request, then reset the connection."""
        return cls("reset", obey=obey)

    @classmethod
    def answer(cls, status: int = 200, body: bytes | str = b"", headers: Mapping[str, str] | None = None) -> Behaviour:
        """Answer `status` with `body` (text is sent as UTF-8) and `headers`."""
        data = body.encode() if isinstance(body, str) else body
        return cls("answer", Reply(status, data, tuple((headers or {}).items())))

    @classmethod
    def redirect(cls, location: str, status: int = 307) -> Behaviour:
        """Answer a redirect to `location`."""
        return cls.answer(status, headers={"location": location})

    @classmethod
    def wrong_json(cls) -> Behaviour:
        """Answer 200 and `application/json` with a body that stops in the middle of an object."""
        return cls.answer(body='{"workers": [{"url": ', headers={"content-type": "application/json"})

    @classmethod
    def html(cls) -> Behaviour:
        """Answer 200 with an HTML page."""
        page = "<!DOCTYPE html><html><body>Please log in</body></html>"
        return cls.answer(body=page, headers={"content-type": "text/html; charset=utf-8"})

    @classmethod
    def drip_headers(cls, *, interval_s: float = 0.1, obey: bool = False) -> Behaviour:
        """Answer 200 with an empty body, one byte of the head (56 in all) every `interval_s` seconds, the first at once."""
        return cls("drip_headers", interval_s=interval_s, obey=obey)

    @classmethod
    def drip_body(cls, body: bytes = b" " * 100, *, interval_s: float = 0.1, obey: bool = False) -> Behaviour:
        """Answer 200, one byte of `body` every `interval_s` seconds, the first at once."""
        return cls("drip_body", Reply(body=body), interval_s, obey)

    @classmethod
    def cut_body(cls, body: bytes = b" " * 10, *, obey: bool = False) -> Behaviour:
        """Answer 200 with `body`, one byte shorter than its `Content-Length`, and close."""
        return cls("cut_body", Reply(body=body), obey=obey)

    @classmethod
    def endless_body(cls, *, obey: bool = False) -> Behaviour:
        """Answer 200 with blanks for as long as the client reads."""
        return cls("endless_body", Reply(body=b" " * 65536), obey=obey)
