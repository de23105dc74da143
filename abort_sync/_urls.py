"""Clean URLs: what a person, a script or a router wrote, made into one spelling. This room sends nothing."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional
from urllib.parse import SplitResult, unquote, urlsplit

MAX_URL_LENGTH = 2048
_RANK = re.compile(r"@\d+(?=/*$)")
_HOST_AND_PORT = re.compile(r"(\[[^]]*\]|[0-9A-Fa-f:.]*|[^:/?#]*)(:\d+)?(/.*)?")
_QUERY = re.compile(r"([?#]).*", re.DOTALL)
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_HALF_A_SCHEME = re.compile(r"https?(:?/|;)", re.IGNORECASE)
_NO_NAME = re.compile(r"[^\w.-]")
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")


class _Reason(ValueError):
    """Why a URL cannot be used, in words that repeat nothing of it."""


@dataclass(frozen=True)
class Url:
    """A server's base URL in its clean spelling.

    Attributes:
        text: The URL to use, without a slash at the end; credentials, if any, are still in it.
        scheme: ``http`` or ``https``.
        host: The host to dial, without brackets.
        port: The port to dial.
    """

    text: str
    scheme: str
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether the host names this very machine, whichever machine that is."""
        return is_local_host(self.host)

    def on_host(self, host: str) -> Url:
        """Return the same URL on another host."""
        userinfo, at, _ = urlsplit(self.text).netloc.rpartition("@")
        return clean_url(f"{self.scheme}://{userinfo}{at}{_bracketed(host)}:{self.port}{urlsplit(self.text).path}")


def clean_url(text: object, what: str = "the URL") -> Url:
    """Return the clean spelling of a server's base URL.

    White space around it, slashes at the end, doubled slashes, a ``/v1`` path and a data-parallel ``@rank`` go; a
    missing scheme becomes ``http``; an unbracketed IPv6 address gets its brackets where it can only be read one way.

    Raises:
        ValueError: It cannot be used; the text says why, with credentials masked.
    """
    if not isinstance(text, str):
        raise ValueError(f"{what} must be a string like http://10.0.0.1:30000, not {type(text).__name__}")
    return _cleaned(text, what)


@lru_cache(maxsize=4096)
def _cleaned(text: str, what: str) -> Url:
    url = text.strip()
    if not url:
        raise ValueError(f"{what} is empty")
    if len(url) > MAX_URL_LENGTH:
        raise ValueError(f"{what} is {len(url)} characters long, more than {MAX_URL_LENGTH}")
    shown = mask(url)
    if any(ch.isspace() or not ch.isprintable() or ch == "\\" for ch in url):
        raise ValueError(f"{what} {shown!r} holds a space, a backslash or a control character")
    url = _RANK.sub("", url)
    scheme = _SCHEME.match(url)
    if scheme is None:
        if "://" in url or url.startswith("/") or _HALF_A_SCHEME.match(url):
            raise ValueError(f"{what} {shown!r} has no usable scheme: write http://HOST:PORT")
        url = f"http://{url}"
    elif scheme.group(1).lower() not in ("http", "https"):
        raise ValueError(f"{what} {shown!r} has the scheme {scheme.group(1)!r}: only http and https can be used")
    try:
        return _checked(_split(url))
    except ValueError as why:
        reason = f": {why}" if isinstance(why, _Reason) or "***" not in shown else ""  # a library's text may repeat a password
        raise ValueError(f"{what} {shown!r} cannot be used{reason}") from None


def mask(url: str) -> str:
    """Return the URL with any credentials in it replaced by ``***``, also where it is no good URL."""
    scheme = _SCHEME.match(url)
    head, rest = (url[: scheme.end()], url[scheme.end() :]) if scheme else ("", url)
    rank = _RANK.search(rest)
    rest, suffix = (rest[: rank.start()], rest[rank.start() :]) if rank else (rest, "")
    _, at, host = rest.rpartition("@")  # the last @ of all: a password may hold slashes that should have been encoded
    if at:
        rest = f"***@{host}"
    elif rank and not _HOST_AND_PORT.fullmatch(rest):
        rest = "***"  # what looked like a rank is a host
    return _QUERY.sub(lambda found: f"{found.group(1)}***", f"{head}{rest}{suffix}")  # a template would be imported


def credentials(url: str) -> Optional[tuple[str, str]]:
    """Return the user and the password that stand in a URL, or None."""
    userinfo, at, _ = urlsplit(url).netloc.rpartition("@")
    if not at or not userinfo:
        return None
    user, _, password = userinfo.partition(":")
    return unquote(user), unquote(password)


def is_local_host(host: str) -> bool:
    """Tell whether a host name or address means the machine itself: localhost, 127.x, ::1, or the wildcard address."""
    if host.lower().rstrip(".") in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback or address.is_unspecified


def is_wildcard(host: str) -> bool:
    """Tell whether a host is ``0.0.0.0`` or ``::``, which name no machine."""
    return host in ("0.0.0.0", "::")


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if "@" in userinfo:
        raise _Reason("it holds more than one @")
    if host.count(":") > 1 and "[" not in host:
        parts = parts._replace(netloc=f"{userinfo}{at}{_ipv6_netloc(host)}")
    return parts


def _ipv6_netloc(host: str) -> str:
    address, _, port = host.rpartition(":")
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        ipaddress.IPv6Address(address)  # nine groups: the last one can only be the port
        return f"[{address}]:{port}"
    if "::" not in host:
        return f"[{host}]"  # eight groups, none left out: an address without a port
    raise _Reason("an IPv6 address needs brackets: http://[ADDRESS]:PORT")


def _checked(parts: SplitResult) -> Url:
    if parts.query or parts.fragment:
        raise _Reason("a base URL has no ? and no #")
    host = parts.hostname or ""
    if not host:
        raise _Reason("it names no host")
    try:
        port = parts.port
    except ValueError:  # whose text repeats what may be a password
        raise _Reason("its port is no number from 1 to 65535") from None
    if port == 0:
        raise _Reason("port 0 cannot be dialled")
    if ":" in host or "[" in parts.netloc.rpartition("@")[2]:  # older Pythons take anything between brackets for a host
        ipaddress.IPv6Address(host)
    elif host.replace(".", "").isdigit():
        if host.count(".") != 3:
            raise _Reason("its host is no address: write http://HOST:PORT")
        if ipaddress.IPv4Address(host).packed[0] == 0 and not is_wildcard(host):
            raise _Reason("0.x.x.x names no machine")
    else:
        if _NO_NAME.search(host):
            raise _Reason("its host holds what no host name can; several URLs are several values")
        host.encode("idna")  # an empty or overlong label
    scheme = parts.scheme.lower()
    usual = 443 if scheme == "https" else 80
    path = re.sub(r"/{2,}", "/", parts.path).rstrip("/")
    path = re.sub(r"(?:^|(?<=/))v1$", "", path).rstrip("/")
    userinfo, at, _ = parts.netloc.rpartition("@")
    userinfo, at = (userinfo, at) if userinfo else ("", "")
    shown_port = "" if port in (None, usual) else f":{port}"
    text = f"{scheme}://{userinfo}{at}{_bracketed(host)}{shown_port}{path}"
    return Url(text, scheme, host, port or usual)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
