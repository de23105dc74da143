"""Settings: keys, limits and times, checked when made and frozen after. This room sends nothing and reads no environment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from logging import Logger
from typing import ClassVar, Optional, Union
from urllib.parse import quote

from ._errors import ConfigurationError
from ._events import OnEvent
from ._urls import Url, clean_url

_IN_HTML = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("'"): "&#x27;"}
MAX_SECONDS = 7 * 86_400.0
Urls = Union[str, Iterable[str], None]


def check_seconds(name: str, value: object) -> float:
    """Return a duration in seconds: above 0, at most 7 days.

    Raises:
        ConfigurationError: It is no number, or out of that range.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{name} must be a number of seconds, not {type(value).__name__}: for example {name}=10.0")
    if not 0 < value <= MAX_SECONDS:
        raise ConfigurationError(f"{name} must be above 0 and at most {MAX_SECONDS:.0f} seconds, not {value!r}")
    return float(value)


def check_count(name: str, value: object, low: int, high: int) -> int:
    """Return a whole number in a range.

    Raises:
        ConfigurationError: It is no whole number, or out of the range.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigurationError(f"{name} must be a whole number from {low} to {high}, not {value!r}")
    return value


def check_flag(name: str, value: object) -> bool:
    """Return True or False.

    Raises:
        ConfigurationError: It is neither.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} must be True or False, not {value!r}")
    return value


def check_logger(logger: Optional[Logger]) -> Optional[Logger]:
    """Return the logger, or None.

    Raises:
        ConfigurationError: It cannot log a warning.
    """
    if logger is not None and not callable(getattr(logger, "warning", None)):
        raise ConfigurationError(f"logger must be a logging.Logger or None, not {type(logger).__name__}")
    return logger


@dataclass(frozen=True)
class Keys:
    """The four secrets, each sent only where it belongs; a repr tells which are set, never a value.

    White space around a key goes; an empty or blank key is no key, and then no header is sent.

    Args:
        router: For the router's listing (``--api-key`` of the router).
        worker: For the workers (``--api-key`` of SGLang).
        worker_admin: For aborts, where given, in place of ``worker``: an SGLang server with both keys takes an abort
            with its ``--admin-api-key`` only (Source: SGLang 0.5.23, measured).
        agent: For the agent server (``HARBOR_ADMIN_SECRET``).

    Raises:
        ConfigurationError: A key is no string, or holds a control or non-ASCII character; the text never shows the key.
    """

    router: Optional[str] = field(default=None, repr=False)
    worker: Optional[str] = field(default=None, repr=False)
    worker_admin: Optional[str] = field(default=None, repr=False)
    agent: Optional[str] = field(default=None, repr=False)
    _forms: ClassVar[tuple[str, ...]]  # each key as it is and as it may be encoded, the longest first

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, _clean_key(one.name, getattr(self, one.name)))
        keys = {getattr(self, one.name) for one in fields(self)} - {None}
        encoded = {form for key in keys for form in (key, quote(key, safe=""), json.dumps(key)[1:-1], key.translate(_IN_HTML))}
        object.__setattr__(self, "_forms", tuple(sorted(encoded, key=len, reverse=True)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{one.name}={'***' if getattr(self, one.name) else None}" for one in fields(self))
        return f"Keys({shown})"

    def scrub(self, text: str) -> str:
        """Return the text with every key in it, as it is or encoded for a URL, JSON or HTML, replaced by ``***``."""
        for form in self._forms:
            text = text.replace(form, "***")
        return text


def _clean_key(name: str, value: object) -> Optional[str]:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigurationError(f"keys.{name} must be a string or None, not {type(value).__name__}")
    key = value.strip()
    if not all(" " <= ch <= "~" for ch in key):
        raise ConfigurationError(
            f"keys.{name} holds a control or non-ASCII character and cannot be sent in a header: check the file or variable it came from"
        )
    return key or None


@dataclass(frozen=True)
class Limits:
    """Bounds for one attempt and for the fan-out.

    Args:
        connect_s: Seconds for one attempt to resolve, connect and shake hands; above 0.
        read_s: Seconds for one attempt to send the request and receive the whole answer; above 0. It does not apply
            to a flush, which answers after its teardown.
        attempts: Attempts at one target in all, the first included; 1 to 3.
        threads: At most so many calls at once; 1 to 1024. Where targets wait for a thread, one attempt may take its share of the
            time left, so that a hung server keeps nobody from its turn; a flush keeps its thread, unless threads were refused.

    Raises:
        ConfigurationError: A value is out of its range.
    """

    connect_s: float = 2.0
    read_s: float = 5.0
    attempts: int = 3
    threads: int = 256

    def __post_init__(self) -> None:
        object.__setattr__(self, "connect_s", check_seconds("limits.connect_s", self.connect_s))
        object.__setattr__(self, "read_s", check_seconds("limits.read_s", self.read_s))
        check_count("limits.attempts", self.attempts, 1, 3)
        check_count("limits.threads", self.threads, 1, 1024)


@dataclass(frozen=True)
class Settings:
    """All that a client was told, checked."""

    routers: tuple[Url, ...]
    worker_urls: tuple[Url, ...]
    agent_server: Optional[Url]
    keys: Keys
    timeout_s: float
    flush_timeout_s: float
    limits: Limits
    trust_env: bool
    verify: Union[bool, str]
    allow_empty: bool
    exclusive: bool
    rewrite_local_urls: bool
    on_event: Optional[OnEvent]


def check_urls(name: str, urls: Urls) -> tuple[Url, ...]:
    """Return clean URLs, each once, in order; None and empty strings are left out.

    Raises:
        ConfigurationError: One of them cannot be used.
    """
    if urls is None:
        return ()
    if not isinstance(urls, str) and not isinstance(urls, Iterable):
        raise ConfigurationError(f"{name} must be a URL or a list of URLs, not {type(urls).__name__}")
    found: dict[str, Url] = {}
    for one in [urls] if isinstance(urls, str) else urls:
        if one is None or one == "":
            continue
        try:
            url = clean_url(one, name)
        except ValueError as why:
            raise ConfigurationError(str(why)) from None
        found.setdefault(url.text, url)
    return tuple(found.values())


def check_verify(verify: object) -> Union[bool, str]:
    """Return how certificates are checked: True, False, or the path of a CA bundle or directory that exists.

    Raises:
        ConfigurationError: It is neither, or the path does not exist.
    """
    if isinstance(verify, bool):
        return verify
    if isinstance(verify, (str, os.PathLike)):
        path = os.fspath(verify)
        if isinstance(path, str) and os.path.exists(path):
            return path
        raise ConfigurationError(f"verify: there is no CA bundle at {path!r}")
    raise ConfigurationError(f"verify must be True, False or the path of a CA bundle, not {type(verify).__name__}")
