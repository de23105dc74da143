"""One attempt against one URL: the only user of ``requests`` and ``urllib3``. This room knows nothing of retries or workers.

Only ``Session.send`` sends, so whatever intercepts it in a user's tests intercepts every call. Below it, the documented hook
``HTTPAdapter.get_connection_with_tls_context`` hands out one plain ``http.client`` connection an attempt, whose socket keeps
the deadline and can be cut, in place of a pool a host. Nothing is kept from one attempt to the next.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Mapping, MutableMapping
from typing import Any, Optional, Union
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.hooks import default_hooks
from requests.structures import CaseInsensitiveDict
from requests.utils import DEFAULT_CA_BUNDLE_PATH, get_netrc_auth, select_proxy
from urllib3.response import HTTPResponse

from ._answer import Answer, Order
from ._config import Limits
from ._connection import Connection, Dialer
from ._deadline import Deadline
from ._sockets import Line
from ._urls import credentials

_KEPT_HEADERS = ("content-type", "location", "retry-after")


class Transport:
    """Makes attempts for one call; holds what the call's attempts share, and no socket.

    Args:
        verify: How certificates are checked: True, False or a path.
        trust_env: Whether proxy variables, CA variables and ``.netrc`` are used.
        limits: Bounds for one attempt.
    """

    def __init__(self, verify: Union[bool, str], trust_env: bool, limits: Limits) -> None:
        self._session = _Session()
        self._session.trust_env = self.trusts_env = trust_env
        self._verify = verify
        self._limits = limits
        self.dialer = Dialer(DEFAULT_CA_BUNDLE_PATH, limits.threads)

    def attempt(self, order: Order, line: Line, deadline: Deadline) -> Answer:
        """Make one exchange; whatever goes wrong is in the answer, and the line is closed.

        Args:
            order: What to send.
            line: A fresh line; it tells others what has become of the attempt while this runs.
            deadline: When it must have ended.
        """
        began = time.monotonic()
        status: Optional[int] = None
        body, error = b"", None
        headers: tuple[tuple[str, str], ...] = ()
        failure: Optional[BaseException] = None
        try:
            request = _Request(order, line, self, deadline)
            line.limit = deadline.within(self._limits.connect_s)
            verify: Any = self._verify
            proxies: MutableMapping[str, str] = {}
            if self.trusts_env:
                found = self._session.merge_environment_settings(order.url, {}, True, None if verify is True else verify, None)
                verify, proxies = found["verify"], found["proxies"]
            with self._session.send(
                request, stream=True, allow_redirects=False, verify=verify, cert=None, proxies=proxies, timeout=None
            ) as response:
                line.is_sent, line.phase = True, "reading the answer"
                headers = tuple((name, response.headers[name]) for name in _KEPT_HEADERS if name in response.headers)
                body = _read(response, order.max_bytes)
                status = response.status_code
        except Exception as why:  # also what no library documents: Unicode, overflow, label too long
            failure = why
        finally:
            line.close()
        if isinstance(failure, (requests.ReadTimeout, requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError)):
            line.is_sent = True
        if failure is not None or line.is_cut:
            error = line.why if line.is_cut else _phrase(failure)
            error = f"{error} while {line.phase}"
            status = None
        is_refused = failure is not None and any(isinstance(one, ConnectionRefusedError) for one in _chain(failure))
        failure = None  # its traceback holds this frame, and both would hold the connection until the garbage collector comes
        return Answer(status, body, headers, error, line.is_sent, is_refused, time.monotonic() - began)

    def answering_limit(self, order: Order, deadline: Deadline) -> Deadline:
        """Return when the answer must have come, now that the connection stands."""
        return deadline.within(self._limits.read_s) if order.is_bounded else deadline


class _Request(requests.PreparedRequest):
    """A prepared request that carries its line down to the connection."""

    def __init__(self, order: Order, line: Line, transport: Transport, deadline: Deadline) -> None:
        super().__init__()
        self.order, self.line, self.transport, self.deadline = order, line, transport, deadline
        self.method, self.url, self.body, self.hooks = order.method, order.url, order.body, default_hooks()
        self.headers = CaseInsensitiveDict({"User-Agent": "abort-sync", "Accept": "application/json, */*", "Connection": "close"})
        if order.body is not None:
            self.headers["Content-Type"] = "application/json"
            self.headers["Content-Length"] = str(len(order.body))
        login = credentials(order.url) if "@" in order.url else None
        if order.key is not None:
            self.headers["Authorization"] = f"Bearer {order.key}"
        elif login is None and transport.trusts_env:
            login = get_netrc_auth(order.url)
        if order.key is None and login is not None:
            self.prepare_auth(login)
        if "@" in order.url:
            parts = urlsplit(order.url)
            self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class _Session(requests.Session):
    """A session that follows no redirect and connects through lines; it sees no cookie, since no answer has an original."""

    def __init__(self) -> None:
        super().__init__()
        adapter = _Adapter(pool_connections=1, pool_maxsize=1)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Say that there is none: the body of a redirect would be read without bound to prepare the next request."""


class _Adapter(HTTPAdapter):
    """Hands out a light connection an attempt."""

    def get_connection_with_tls_context(  # type: ignore[override]  # a pool is promised; only its urlopen() is used
        self, request: _Request, verify: Any, proxies: Optional[Mapping[str, str]] = None, cert: Any = None
    ) -> _Exchange:
        proxy = select_proxy(str(request.url), proxies) if proxies else None
        return _Exchange(request, verify, proxy, self.proxy_headers(proxy) if proxy else {})

    def request_url(self, request: requests.PreparedRequest, proxies: Optional[Mapping[str, str]]) -> str:
        """Return what stands in the request line; without a proxy that is the path, and there is no need to look further."""
        return super().request_url(request, proxies) if proxies else request.path_url

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Do nothing: the line's own TLS context checks."""


class _Exchange:
    """What the adapter takes for a connection pool: one connection, one request."""

    def __init__(self, request: _Request, verify: Any, proxy: Optional[str], proxy_headers: Mapping[str, str]) -> None:
        self._request, self._verify, self._proxy, self._proxy_headers = request, verify, proxy, proxy_headers

    def urlopen(self, method: str, url: str, body: Any, headers: Any, **_: Any) -> HTTPResponse:
        """Send the request and return the answer with its body unread."""
        target = urlsplit(str(self._request.url))
        request, is_tls = self._request, target.scheme == "https"
        connection = Connection(request.transport.dialer, request.line, target.hostname or "", target.port, is_tls, self._verify)
        sent = dict(headers)
        if self._proxy is not None:
            connection.go_through(self._proxy, self._proxy_headers)
            if target.scheme == "http":
                sent.update(self._proxy_headers)
        answer = connection.exchange(method, url, body, sent, lambda: request.transport.answering_limit(request.order, request.deadline))
        return HTTPResponse(
            body=answer, headers=dict(answer.getheaders()), status=answer.status, reason=answer.reason, preload_content=False,
            decode_content=False, enforce_content_length=True, request_method=method,
        )  # fmt: skip


def _read(response: requests.Response, max_bytes: int) -> bytes:
    if response.headers.get("content-length") == "0":
        return b""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "deflate"):  # encoded twice, a kilobyte can stand for gigabytes
        raise OSError(f"the answer's content-encoding {encoding[:40]!r} was not asked for")
    parts, size = [], 0
    for part in response.iter_content(16_384):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            if response.status_code == 200:
                raise OSError(f"the answer is longer than {max_bytes} bytes")
            break  # a "no" is a "no" at any length
    return b"".join(parts)[:max_bytes]


def _chain(why: Optional[BaseException]) -> list[BaseException]:
    """Return an error and everything it was made from, outermost first."""
    found: list[BaseException] = []
    queue = [why]
    while queue:
        one = queue.pop()
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            queue += [one.__cause__, one.__context__, getattr(one, "reason", None), *(a for a in one.args if isinstance(a, BaseException))]
    return found


def _phrase(why: Optional[BaseException]) -> str:
    """Return an error as a person would say it, without the libraries' nested texts."""
    chain = _chain(why)
    for one in chain:
        if isinstance(one, (socket.timeout, requests.Timeout)):
            return "timed out"
        if isinstance(one, ConnectionRefusedError):
            return "connection refused"
        if isinstance(one, ssl.SSLCertVerificationError):
            return (
                f"the certificate was not accepted ({one.verify_message or 'verification failed'}; verify= takes the path of a CA bundle)"
            )
        if isinstance(one, ssl.SSLError) and one.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
            return "no TLS came back: a server that speaks plain http wants an http:// URL"
        if isinstance(one, socket.gaierror):
            return f"the name could not be resolved ({one.strerror})"
        if isinstance(one, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)):
            return "connection closed by the server"
        if isinstance(one, http.client.BadStatusLine):
            return f"no HTTP came back: {one}"
    inner = chain[-1] if chain else None
    if isinstance(inner, ValueError) and not isinstance(inner, UnicodeError):
        return "what came back is no HTTP"  # such a text quotes it, escaped, and a key in it would not be recognised
    return f"{type(inner).__name__}: {inner}"
