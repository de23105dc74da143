"""Request ids: make, check, expand, and read whether an answer was aborted. This room knows nothing of HTTP or threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ._errors import ConfigurationError


def new_rid(prefix: str = "") -> str:
    """Return a fresh request id that no other one begins with.

    SGLang matches rids by prefix, so ids of one length are safest: this one is ``prefix`` and 33 characters more.
    It ends in a letter, never in ``_<digits>``, which is how an engine names the parts of a batch.

    Args:
        prefix: Anything that helps you to find the request in a log, at most 200 printable characters.

    Raises:
        ConfigurationError: The prefix is no such string.
    """
    if not isinstance(prefix, str) or len(prefix) > 200 or not prefix.isprintable():
        raise ConfigurationError(f"prefix must be a string of at most 200 printable characters, not {_shown(prefix)}")
    return f"{prefix}{os.urandom(16).hex()}r"


def expand_batch_rids(rid: str, n: int) -> list[str]:
    """Return the rids that SGLang gives to the ``n`` prompts of one batch request: ``rid_0`` to ``rid_<n-1>``.

    Aborting ``rid`` itself does nothing for a batch.

    Args:
        rid: The rid of the batch.
        n: How many prompts it has, from 1.

    Raises:
        ConfigurationError: The rid is not usable, or ``n`` is no positive integer.

    Source: SGLang 0.5.23, measured with a batch of two.
    """
    check_rid(rid)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ConfigurationError(f"n must be a whole number from 1 (how many prompts the batch has), not {n!r}")
    return [f"{rid}_{i}" for i in range(n)]


def is_aborted(response_json: Any) -> bool:
    """Tell whether a generate's answer is the partial text of an aborted request.

    An aborted generate answers HTTP 200 with the text so far; a script that does not look would train on it.
    Reads the native shape (``meta_info.finish_reason``), the OpenAI shapes (``choices[].finish_reason``), lists of
    answers (a batch), and one event of a stream. True if any part of it was aborted.

    Args:
        response_json: The decoded JSON of the answer.

    Raises:
        ConfigurationError: It is a text or a response, which says nothing before it is decoded: give ``response.json()``.

    Source: SGLang 0.5.23, measured: ``{"type": "abort", ...}`` natively and ``"abort"`` on the OpenAI routes.
    """
    if isinstance(response_json, (list, tuple)):
        return any(is_aborted(one) for one in response_json)
    if not isinstance(response_json, Mapping):
        if response_json is None or isinstance(response_json, (bool, int, float)):
            return False
        raise ConfigurationError(f"is_aborted takes the decoded JSON of an answer, response.json(), not {_shown(response_json)}")
    reasons = [response_json.get("finish_reason")]
    meta = response_json.get("meta_info")
    if isinstance(meta, Mapping):
        reasons.append(meta.get("finish_reason"))
    if any(reason == "abort" or (isinstance(reason, Mapping) and reason.get("type") == "abort") for reason in reasons):
        return True
    choices = response_json.get("choices")
    return isinstance(choices, (list, tuple)) and any(is_aborted(one) for one in choices if isinstance(one, Mapping))


def check_rid(rid: object) -> str:
    """Return the rid if it may be sent.

    Raises:
        ConfigurationError: It is no string, or it is empty or blank (older engines took that for "everything").
    """
    if not isinstance(rid, str):
        raise ConfigurationError(f"rid must be the request id as a string, not {_shown(rid)}")
    if not rid.strip():
        raise ConfigurationError("rid is empty: give the id of a request, or call abort_all() to stop everything")
    try:
        rid.encode()
    except UnicodeEncodeError:
        raise ConfigurationError("rid holds a lone surrogate and cannot be sent as UTF-8") from None
    return rid


def check_rids(rids: object) -> list[str]:
    """Return the rids as a list, each once, in order.

    Raises:
        ConfigurationError: It is one string (a list was meant), not iterable, or holds a rid that may not be sent.
    """
    if isinstance(rids, (str, bytes)):
        raise ConfigurationError("rids must be a list of request ids, not one string: write [rid], or call abort_request(rid)")
    if not isinstance(rids, Iterable) or isinstance(rids, Mapping):
        raise ConfigurationError(f"rids must be a list of request ids, not {_shown(rids)}")
    return list(dict.fromkeys(check_rid(rid) for rid in rids))


def prefix_notes(rids: list[str]) -> list[str]:
    """Return a warning for each rid that is the beginning of another one in the list (the engine matches by prefix)."""
    ordered = sorted(rids)
    return [
        f"rid {one!r} is the beginning of rid {other!r}: the engine matches by prefix, so aborting the first ends both"
        for one, other in zip(ordered, ordered[1:])
        if other.startswith(one)
    ]


def _shown(value: object) -> str:
    article = "an" if type(value).__name__[:1] in "aeiou" else "a"
    return f"{article} {type(value).__name__}" if value is not None else "None"
