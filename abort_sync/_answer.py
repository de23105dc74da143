"""What one exchange brought, before anybody judges it. This room knows nothing of sockets."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any, Optional
from urllib.parse import quote

from ._urls import credentials

MAX_VALUES = 500_000
"""So many values are read of one body: ten thousand workers with fifty details each."""


@dataclass(frozen=True)
class Order:
    """One request, the same for every attempt at its target.

    Attributes:
        method: ``GET`` or ``POST``.
        url: Where to, in full.
        key: The bearer key, or None for no header.
        body: The JSON to send, or None.
        max_bytes: The longest answer that is read.
        is_bounded: Whether ``limits.read_s`` applies (not to a flush).
    """

    method: str
    url: str
    key: Optional[str] = None
    body: Optional[bytes] = None
    max_bytes: int = 65_536
    is_bounded: bool = True

    def __repr__(self) -> str:
        return f"Order({self.method})"  # neither the key nor credentials in the URL


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        status: The HTTP status, or None when the head did not come whole.
        body: What was read.
        headers: ``content-type``, ``location`` and ``retry-after``, where given.
        error: What went wrong on the way, as a phrase, or None.
        is_sent: Whether a byte of the request may have left.
        is_refused: Whether the connection was refused: nobody listens there.
        elapsed_s: Seconds.
    """

    status: Optional[int] = None
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    error: Optional[str] = None
    is_sent: bool = True
    is_refused: bool = False
    elapsed_s: float = 0.0

    def header(self, name: str) -> Optional[str]:
        """Return a header's value, or None."""
        return dict(self.headers).get(name)

    @property
    def is_whole(self) -> bool:
        """Whether headers and stated body arrived in full."""
        return self.status is not None and self.error is None

    @property
    def is_html(self) -> bool:
        """Whether it is a page, as a portal or proxy sends it."""
        kind = (self.header("content-type") or "").lower()
        return "html" in kind or self.body.lstrip()[:15].lower().startswith((b"<!doctype", b"<html"))


def readable(text: str, longest: int) -> str:
    """Return foreign text on one line, without control characters and not longer than that; scrub it first: a cut key is none."""
    return " ".join("".join(ch if ch.isprintable() else " " for ch in text).split())[:longest]


def without_login(answer: Answer, url: str) -> Answer:
    """Return the answer to a URL that holds a password without that password, as it is or as it was sent.

    The body of a 200 stays as it is: it is read, not shown, and a short password may be a part of what must be read.
    """
    login = credentials(url) if "@" in url else None
    if login is None or not login[1]:
        return answer
    body, location, error = answer.body, answer.header("location"), answer.error
    for secret in (base64.b64encode(":".join(login).encode()).decode(), quote(login[1], safe=""), login[1]):
        body = body.replace(secret.encode(), b"***")
        location = location.replace(secret, "***") if location else location
        error = error.replace(secret, "***") if error else error
    headers = tuple((name, location if name == "location" and location else value) for name, value in answer.headers)
    return replace(answer, body=answer.body if answer.status == 200 else body, headers=headers, error=error)


class NotJson(ValueError):
    """The text is no JSON that is worth reading."""


def read_json(body: bytes) -> Any:
    """Return the decoded JSON of a body from a server that is not trusted.

    Raises:
        NotJson: Cut off, not UTF-8, nested too deeply, of too many values, or not JSON.
    """
    import json

    if body.count(b",") > MAX_VALUES:  # else millions of small values take seconds that no deadline can cut
        raise NotJson(f"more than {MAX_VALUES} values")
    try:
        return json.loads(body.decode("utf-8"), parse_int=_short_int)
    except (ValueError, RecursionError) as why:
        raise NotJson(f"{type(why).__name__} in {len(body)} bytes") from None


def _short_int(digits: str) -> int:
    if len(digits) > 20:  # older interpreters take minutes over a million digits
        raise ValueError("a number of more than 20 digits")
    return int(digits)
